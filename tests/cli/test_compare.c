// pumice bench's document against its schema, and pumice compare on documents of known numbers.
#include "cli/cli_test.h"

#include <math.h>
#include <png.h>
#include <stdbool.h>

// ---- the schema -------------------------------------------------------------------------------

static bool is_type(const json_t *value, const char *type)
{
    if (!strcmp(type, "object")) return json_is_object(value);
    if (!strcmp(type, "array")) return json_is_array(value);
    if (!strcmp(type, "string")) return json_is_string(value);
    if (!strcmp(type, "boolean")) return json_is_boolean(value);
    if (!strcmp(type, "null")) return json_is_null(value);
    if (!strcmp(type, "integer")) return json_is_integer(value);
    if (!strcmp(type, "number")) return json_is_number(value);
    fail_msg("schema: unknown type %s", type);
    return false;
}

// The keywords that docs/bench.schema.json uses; any other fails, so that none is skipped. NULL:
// valid; else what is wrong, in a static buffer.
static const char *violation(const json_t *schema, const json_t *value, const char *where)
{
    static char text[300];
    const char *keyword, *name;
    json_t *rule, *sub;
    size_t i;
    json_object_foreach((json_t *)schema, keyword, rule)
    {
        bool good = true;
        if (!strcmp(keyword, "type")) {
            const json_t *list = json_is_array(rule) ? rule : NULL;
            good = list ? false : is_type(value, json_string_value(rule));
            json_array_foreach(list, i, sub) good = good || is_type(value, json_string_value(sub));
        } else if (!strcmp(keyword, "const")) {
            good = json_equal(value, rule);
        } else if (!strcmp(keyword, "enum")) {
            good = false;
            json_array_foreach(rule, i, sub) good = good || json_equal(value, sub);
        } else if (!strcmp(keyword, "required")) {
            json_array_foreach(rule, i, sub)
            {
                if (json_object_get(value, json_string_value(sub))) continue;
                snprintf(text, sizeof text, "%s: no %s", where, json_string_value(sub));
                return text;
            }
        } else if (!strcmp(keyword, "properties")) {
            json_object_foreach(rule, name, sub)
            {
                const json_t *member = json_object_get(value, name);
                const char *wrong = member ? violation(sub, member, name) : NULL;
                if (wrong) return wrong;
            }
        } else if (!strcmp(keyword, "items")) {
            json_array_foreach(value, i, sub)
            {
                const char *wrong = violation(rule, sub, where);
                if (wrong) return wrong;
            }
        } else if (strcmp(keyword, "$schema") != 0 && strcmp(keyword, "title") != 0) {
            fail_msg("schema: unknown keyword %s", keyword);
        }
        if (good) continue;
        snprintf(text, sizeof text, "%s: not as '%s' has it", where, keyword);
        return text;
    }
    return NULL;
}

static void assert_schema(const json_t *all)
{
    json_t *schema = json_load_file(test_source("docs/bench.schema.json"), 0, NULL);
    assert_non_null(schema);
    const char *wrong = violation(schema, all, "document");
    if (wrong) fail_msg("%s", wrong);
    json_decref(schema);
}

static json_t *failing_bench(const char *options)
{
    char *out, *err;
    int status = pumice(&out, &err, "$P bench '%s' %s -o json -q", tiny(), options);
    assert_int_equal(status, 1);
    assert_non_null(strstr(err, "1 of 2 configurations failed"));
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    free(out);
    free(err);
    return all;
}

static void r58_bench_fits_its_schema(void **state)
{
    (void)state;
    json_t *all = json_of("$P bench '%s' --prompt 8,16 --gen 4 --depth 0,4 --repeat 3 --per-op "
                          "--peak-gbps 1000 --checked --device cpu --seed 5 -o json -q",
                          tiny());
    assert_schema(all);
    assert_true(json_is_true(key_of(all, "checked")));
    assert_int_equal(json_integer_value(key_of(all, "seed")), 5);
    assert_int_equal(json_array_size(key_of(all, "results")), 6);
    const json_t *r;
    size_t i;
    json_array_foreach(key_of(all, "results"), i, r)
    {
        assert_int_equal(json_array_size(key_of(r, "samples_tps")), 3);
        // Two warm-ups that agree, or the most there are.
        json_int_t warm_ups = json_integer_value(key_of(r, "warm_ups"));
        bool steady = json_is_true(key_of(r, "steady"));
        assert_true(steady ? warm_ups >= 2 && warm_ups <= 5 : warm_ups == 5);
        double gbps = json_number_value(key_of(r, "gbps"));
        double percent = json_number_value(key_of(r, "percent_of_peak"));
        assert_true(fabs(percent - gbps / 10) < 1e-9 * percent);
    }
    // The test can fail: a document without a key, of another version, of another type.
    json_t *schema = json_load_file(test_source("docs/bench.schema.json"), 0, NULL);
    json_t *broken = json_deep_copy(all);
    json_object_del(broken, "seed");
    assert_non_null(violation(schema, broken, ""));
    json_object_update(broken, all);
    assert_null(violation(schema, broken, ""));
    json_object_set_new(broken, "schema", json_integer(2));
    assert_non_null(violation(schema, broken, ""));
    json_object_update(broken, all);
    json_object_set_new(broken, "results", json_string("many"));
    assert_non_null(violation(schema, broken, ""));
    json_decref(broken);
    json_decref(schema);
    json_decref(all);

    // One that does not fit does not end the others; the status says that it failed.
    all = failing_bench("--prompt 8,64 --gen 0 --ctx 32 --repeat 1");
    assert_schema(all);
    assert_true(json_is_null(key_of(all, "checked"))); // nobody asked
    json_decref(all);
    char *table = output_of("$P bench '%s' --prompt 8 --gen 0 --repeat 1 --seed 77 -q", tiny());
    assert_non_null(strstr(table, "--seed 77"));
    assert_non_null(strstr(table, "not checked"));
    free(table);
}

static void an_estimate_runs_nothing(void **state)
{
    (void)state;
    json_t *all = json_of("$P bench '%s' --prompt 0 --gen 16 --depth 0,256 --estimate 100 -o json "
                          "--device cpu -q",
                          tiny());
    assert_schema(all);
    double before = 0;
    size_t i;
    const json_t *r;
    json_array_foreach(key_of(all, "results"), i, r)
    {
        double bytes = json_number_value(key_of(r, "bytes_per_token"));
        assert_string_equal(json_string_value(key_of(r, "status")), "estimated");
        assert_true(fabs(json_number_value(key_of(r, "bound_tps")) * bytes - 100e9) < 1);
        assert_true(bytes > before); // a longer context costs more
        before = bytes;
        // 5 layers of 7 operations or so, embedding, norm, logits
        assert_true(json_number_value(key_of(r, "ops_per_token")) > 30);
    }
    json_decref(all);
    char *table = output_of("$P bench '%s' --estimate 100 -q", tiny());
    assert_non_null(strstr(table, "nothing was run"));
    assert_non_null(strstr(table, "tokens/s at most"));
    free(table);
}

// ---- compare ----------------------------------------------------------------------------------

// A document with one configuration of these samples' median and deviation.
static const char *document(const char *file, const char *sha, const char *device, double median,
                            double sd, int samples)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next = (next + 1) % 4], text[2000];
    snprintf(path, 1024, "%s", test_temp(file));
    int n =
        snprintf(text, sizeof text,
                 "{\"schema\":1,\"device\":{\"name\":\"%s\"},\"driver\":null,\"model\":"
                 "{\"name\":\"m\",\"sha256\":\"%s\",\"type\":\"Q8_0\"},\"threads\":2,\"batch\":"
                 "512,\"kv_type\":\"f16\",\"checked\":true,\"bandwidth_gbps\":20,"
                 "\"roof_gflops\":100,\"results\":[{\"kind\":\"generate\",\"n\":128,\"depth\":0,"
                 "\"status\":\"ok\",\"median_tps\":%g,\"sd_tps\":%g,\"gbps\":5,"
                 "\"samples_tps\":[",
                 device, sha, median, sd);
    for (int i = 0; i < samples; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%g", i ? "," : "", median);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "]}],\"ops\":[{\"op\":\"LINEAR\",\"flops\":1000000,\"bytes\":500000,\"gflops\":"
                  "20}]}");
    test_write(path, text, (size_t)n);
    return path;
}

static const json_t *cell(const json_t *all, size_t row, size_t file)
{
    const json_t *r = json_array_get(key_of(all, "results"), row);
    return json_array_get(key_of(r, "values"), file);
}

static void differences_are_told_from_noise(void **state)
{
    (void)state;
    const char *a = document("a.json", "x", "card A", 100, 2, 5);
    const char *b = document("b.json", "x", "card B", 104, 2, 5); // 2 sqrt(8) = 5.7
    const char *c = document("c.json", "x", "card C", 150, 2, 5);
    json_t *all = json_of("$P compare '%s' '%s' '%s' --json", a, b, c);
    assert_string_equal(json_string_value(key_of(cell(all, 0, 0), "difference")), "");
    assert_string_equal(json_string_value(key_of(cell(all, 0, 1), "difference")), "none");
    assert_string_equal(json_string_value(key_of(cell(all, 0, 2), "difference")), "faster");
    assert_true(fabs(json_number_value(key_of(cell(all, 0, 2), "ratio")) - 1.5) < 1e-9);
    assert_int_equal(json_object_size(key_of(all, "differ")), 0);
    json_decref(all);
    all = json_of("$P compare '%s' '%s' --json", c, a);
    assert_string_equal(json_string_value(key_of(cell(all, 0, 1), "difference")), "slower");
    json_decref(all);
    all = json_of("$P compare '%s' '%s' --json", a, document("d.json", "x", "card D", 300, 0, 1));
    assert_string_equal(json_string_value(key_of(cell(all, 0, 1), "difference")), "one sample");
    json_decref(all);
    char *table = output_of("$P compare '%s' '%s' '%s'", a, b, c);
    assert_non_null(strstr(table, "card B"));
    assert_non_null(strstr(table, "1.500"));
    free(table);
}

static void r62_unlike_runs_are_refused(void **state)
{
    (void)state;
    const char *a = document("e.json", "x", "card A", 100, 2, 5);
    const char *b = document("f.json", "another", "card B", 100, 2, 5);
    assert_refused(2, "model (\"x\", \"another\")", "$P compare '%s' '%s'", a, b);
    char *out, *err;
    assert_int_equal(pumice(&out, &err, "$P compare '%s' '%s' --force --json", a, b), 0);
    assert_non_null(strstr(err, "unlike: model"));
    json_t *all = json_loads(out, 0, NULL);
    assert_int_equal(json_object_size(key_of(all, "differ")), 1);
    json_decref(all);
    free(out);
    free(err);
    assert_refused(2, "2 to", "$P compare '%s'", a);
    assert_refused(3, "nowhere", "$P compare '%s' /nowhere/x.json", a);
    test_write(test_temp("g.json"), "{}", 2);
    assert_refused(3, "bench", "$P compare '%s' '%s'", a, test_temp("g.json"));
    test_write(test_temp("g.json"), "{\"schema\":9,\"results\":[]}", 25);
    assert_refused(3, "schema 9", "$P compare '%s' '%s'", a, test_temp("g.json"));
    test_write(test_temp("g.json"), "not", 3);
    assert_refused(3, "not JSON", "$P compare '%s' '%s'", a, test_temp("g.json"));
}

static unsigned char *pixels_of(const char *file, png_image *image)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(image, file)) fail_msg("%s: no picture", file);
    image->format = PNG_FORMAT_RGB;
    unsigned char *rgb = malloc(PNG_IMAGE_SIZE(*image));
    assert_non_null(rgb);
    assert_true(png_image_finish_read(image, NULL, rgb, 0, NULL));
    return rgb;
}

static void pages_and_pictures(void **state)
{
    (void)state;
    const char *a = document("h.json", "x", "card <A> & co", 100, 10, 5);
    const char *b = document("i.json", "x", "card B", 50, 1, 5);
    char html[1024], png[1024];
    snprintf(html, sizeof html, "%s", test_temp("page.html"));
    snprintf(png, sizeof png, "%s", test_temp("bars.png"));
    free(output_of("$P compare '%s' '%s' --html '%s' --png '%s'", a, b, html, png));
    char *page = test_read(html, NULL);
    assert_non_null(strstr(page, "card &lt;A&gt; &amp; co"));
    assert_null(strstr(page, "card <A>"));
    assert_null(strstr(page, "http"));        // nothing from elsewhere
    assert_non_null(strstr(page, "#0072b2")); // the colours of the two
    assert_non_null(strstr(page, "#e69f00"));
    assert_non_null(strstr(page, "50.00 (0.500, slower)"));
    // The roofline too, with what each mark is; marks differ in shape: a square and a circle.
    assert_non_null(strstr(page, "flops per byte"));
    assert_non_null(strstr(page, "<title>A: LINEAR ?, ? at depth 0: 20 GFLOP/s</title>"));
    assert_non_null(strstr(page, "d=\"M-4-4H4V4H-4Z\" fill=\"#0072b2\""));
    assert_non_null(strstr(page, "d=\"M-4 0A4 4 0 1 1 4 0A4 4 0 1 1-4 0Z\" fill=\"#e69f00\""));
    // All numbers as a table: 5 GB/s of 20.
    assert_non_null(strstr(page, "<td>slower</td><td>5.00</td><td>25.0</td>"));
    free(page);

    png_image image;
    unsigned char *rgb = pixels_of(png, &image);
    // Bars: 400 points are the largest with its deviation; they lie under legend and title.
    size_t top = 16 + 30 + 2 * 14 + 10 + 18, wide[2] = {0, 0};
    static const unsigned char colours[2][3] = {{0, 114, 178}, {230, 159, 0}};
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 28; i < image.width; i++) {
            const unsigned char *p = rgb + 3 * ((top + 15 * f + 2) * image.width + i);
            wide[f] += !memcmp(p, colours[f], 3);
        }
    assert_int_equal(wide[0], 364); // 400 * 100 / 110
    assert_int_equal(wide[1], 182);
    // The roofline is there: a roof of 100 GFLOP/s, and the mark of an operation at 2 flops a byte
    // and 20 GFLOP/s; axes of 0.1 to 100 and 1 to 1000. The second file is drawn over the first.
    size_t roof = top - 18 + (18 + 30 + 8) + 16 + 8;
    assert_int_equal(image.height, roof + 320 + 42);
    size_t x = 76 + 217, y = roof + 320 - 139, flat = 0; // log10: 1.301 of 3
    assert_memory_equal(rgb + 3 * (y * image.width + x), colours[1], 3);
    for (x = 76; x < 76 + 500; x++) {
        const unsigned char *p = rgb + 3 * ((roof + 320 - 213) * image.width + x);
        flat += !memcmp(p, colours[1], 3);
    }
    assert_true(flat > 200 && flat < 230); // from 5 flops a byte on: 1.3 of 3 decades
    free(rgb);
}

// The documents in docs/examples were measured on three devices: they fit the schema, and page and
// picture there are what compare makes of them now.
static void the_examples_are_what_is_made_now(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "lavapipe", "swiftshader"};
    char html[1024], png[1024];
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/bench-%s.json", test_source("docs/examples"), devices[i]);
        json_t *all = json_load_file(path, 0, NULL);
        assert_non_null(all);
        assert_schema(all);
        assert_true(json_is_true(key_of(all, "checked")));
        json_decref(all);
    }
    snprintf(html, sizeof html, "%s", test_temp("example.html"));
    snprintf(png, sizeof png, "%s", test_temp("example.png"));
    free(output_of("cd '%s'; $P compare bench-cpu.json bench-lavapipe.json bench-swiftshader.json "
                   "--html '%s' --png '%s'",
                   test_source("docs/examples"), html, png));
    char *now = test_read(html, NULL),
         *kept = test_read(test_source("docs/examples/compare.html"), NULL);
    assert_string_equal(now, kept);
    free(now);
    free(kept);
    png_image a, b;
    unsigned char *rgb = pixels_of(png, &a);
    unsigned char *kept_rgb = pixels_of(test_source("docs/examples/compare.png"), &b);
    assert_true(a.width == b.width && a.height == b.height);
    assert_memory_equal(rgb, kept_rgb, PNG_IMAGE_SIZE(a));
    free(rgb);
    free(kept_rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r58_bench_fits_its_schema),
        cmocka_unit_test(an_estimate_runs_nothing),
        cmocka_unit_test(differences_are_told_from_noise),
        cmocka_unit_test(r62_unlike_runs_are_refused),
        cmocka_unit_test(pages_and_pictures),
        cmocka_unit_test(the_examples_are_what_is_made_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
