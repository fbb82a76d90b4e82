#!/usr/bin/env python3
"""pumice's template engine against Python's Jinja2 on random templates.

    tools/compare_jinja.py [--n 20000] [--seed 1] [--show 20]

Jinja2 is set up as transformers does it: ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks,
loop controls, generation blocks, tojson, raise_exception, strftime_now. The templates have
expressions of every type, filters, methods, tests, formats, and nested statements with white space
control; variables are those of tests/chat/data/unit_vars.json. Texts must be equal, errors must be
errors of both, with the same message where the template raises it. Exit status 1 where they differ.
Needs the package jinja2 (python3-jinja2, or from pip).

Known to differ, and left out of what is made: infinite constants (which Jinja2 can't compile),
slices of constants that can't be sliced, a namespace inside itself, `1 in loop`, urlize, lipsum.
"""
import argparse
import datetime
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUMICE = os.path.join(ROOT, "build", "release", "pumice")
NOW = "2025-07-08T09:05:03"


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime.fromisoformat(NOW).strftime
    return env


# ---- random templates --------------------------------------------------------------------------

INTEGERS = "n z neg 1 2 3 10 255 0 big l[0] l|length d.a 1_000 0x1F 0o17 123456789012345678901234567890"
FLOATS = "f 1.5 0.1 2.0 1e3 1e-7 1e22 3.14159 -0.0 5e-324 fl[2] fl[-1]"
STRINGS = ["s", "e", "u", "q", "sp", "'Hello World'", "'a,b,c'", "''", '"it\'s"', "'say \"hi\"'", "'l1\\nl2'", "'ÀÉß'",
           "'%s-%s'", "m[0].role", "'foo-bar--baz'", "'ŉ ǆabc'", "'<b>&\\'\"'", "'aAbB'", "'\\x7f\\u2028'", "'\t 😀'"]
LISTS = ["l", "ls", "el", "mix", "fl", "(1,2,3)", "range(4)", "range(5,0,-2)|list", "'abc'|list", "[[1,2],[3]]",
         "nested.x.y", "d.items()|list", "()", "(1,)"]
DICTS = ["d", "ed", "nested", "m[0]", "dict(a=1,b=2)", "{1:'a',1.0:'b',true:'c'}", "{'k':[1,2],'j':none}"]
OTHERS = ["none", "nope", "d.zzz", "m[9]", "no", "loop", "s.foo", "cycler(1,2).next()", "joiner('x')()"]
OF_STRINGS = """|upper |lower |title |capitalize |trim |reverse |e |urlencode |striptags |forceescape |center(9)
|indent(2,true) |indent(1,blank=true) |truncate(5) |truncate(4,true,'..',0) |wordwrap(4) |wordwrap(3,false)
|replace('a','bb') |replace('',"-") |replace('l','L',1) |trim('ax') |tojson |tojson(ensure_ascii=true) |list|join('-')
|first |last |int |float |length |wordcount .upper() .title() .swapcase() .casefold() .strip() .lstrip('aH')
.rstrip() .replace('a','b') .center(8,'*') .ljust(6) .rjust(6,'0') .zfill(6) .expandtabs(4) .removeprefix('a')
.join(['p','q']) .split() .split(',') .split(none,1) .rsplit(none,1) .rsplit(' ',1) .splitlines() .partition('b')
.find('b') .count('') .startswith(('a','H')) .endswith('c') .isdigit() .isalpha() .istitle() .isprintable() [1:]
[-1] [::-1] [:-2] [5:] [0:5:2]""".split()
OF_LISTS = """|list |reverse|list |sort |sort(reverse=true) |unique|list |map('string')|list |map('upper')|list
|select|list |reject('none')|list |select('odd')|list |batch(2,'x')|list |slice(3,'f')|list |select('in',[1,'a'])|list
|map('int')|list |map('tojson')|list |first |last |length |sum |max |min |join(',') |tojson |tojson(indent=2) |pprint
[0] [-1] [1:] [::-1] [:-2] [::2] *2""".split()
OF_DICTS = "|length |list |tojson |tojson(indent=2,sort_keys=true) |dictsort |items|list .items()|list .get('a') .values()|list".split()
FORMATS = ["%s", "%5s|", "%-5s|", "%r", "%.2s", "{}", "{!r}", "{:>8}", "{:^8}", "{!s:*^9}"]
TESTS = """string number mapping sequence iterable none true false boolean integer float odd even defined undefined lower
upper callable divisibleby(3) eq(1) gt(1) in([1,2])""".split()
STATEMENTS = ["set x = %e", "set ns.v = %e", "set x, y = 1, 2", "if %e|elif %e|else", "if %e", "for x in %l",
              "for x in %l|else", "for k, v in d.items()", "for x in %l if x", "for x in [[1,[2]]] recursive",
              "macro g(a, b=x)", "call f(1)", "call(x) f(%e)", "filter upper", "filter trim", "with x=%e", "set y",
              "set y | upper", "generation", "raw"]
NAMES = ["x", "y", "ns.v", "loop.index", "loop.last", "loop.previtem", "loop.nextitem", "loop.cycle('p','q')",
         "loop.changed(x)", "varargs", "kwargs", "f(1)", "f(1,2,3)", "f(b=4)", "g(1)", "f.arguments", "loop.depth"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def leaf(self):
        return self.pick([self.pick(INTEGERS.split()), self.pick(FLOATS.split()), self.pick(STRINGS), self.pick(LISTS),
                          self.pick(DICTS), self.pick(OTHERS), self.pick(NAMES)])

    def expression(self, depth):
        if depth <= 0:
            return self.leaf()
        sub = lambda: self.expression(depth - 1)
        kind = self.random.randrange(15)
        if kind < 3:
            return f"({self.pick(STRINGS)}){self.pick(OF_STRINGS)}"
        if kind < 5:
            return f"({self.pick(LISTS)}){self.pick(OF_LISTS)}"
        if kind == 5:
            return f"({self.pick(DICTS)}){self.pick(OF_DICTS)}"
        if kind == 6:
            return f"({sub()}) {self.pick(['+', '-', '*', '/', '//', '%'])} {sub()}"
        if kind == 7:
            return f"{sub()} {self.pick(['==', '!=', '<', '<=', 'in', 'not in', 'and', 'or', '~'])} {sub()}"
        if kind == 8:
            return f"({sub()}) is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind == 9:
            return f"({sub()} if {sub()} else {sub()})"
        if kind == 10:
            form = self.pick(FORMATS)
            return f"'{form}' % ({sub()},)" if "%" in form else f"'{form}'.format({sub()})"
        if kind == 11:
            return f"[{sub()}, {sub()}]"
        if kind == 12:
            return f"{{{self.pick(STRINGS)}: {sub()}}}"
        if kind == 13:
            return f"({sub()})|{self.pick(['string', 'tojson', 'default(1)', 'length', 'list', 'int', 'round(1)', 'abs'])}"
        return f"{self.pick(['not', '-'])} {sub()}"

    def tag(self, text):
        return self.pick(["{%", "{%", "{%-", "{%+"]) + f" {text} " + self.pick(["%}", "%}", "-%}", "+%}"])

    def space(self):
        return self.pick(["", " ", "\n", "\n  ", "  \n", "t", "<|x|>", "\tq\n", "\n\n", "{# c #}", "{#- c -#}"])

    def body(self, depth):
        return self.space() + "".join(self.statement(depth - 1) + self.space() for _ in range(self.random.randint(1, 3)))

    def statement(self, depth):
        if self.random.random() < 0.03:
            return self.tag(f"if {self.leaf()}") + f"{{{{ raise_exception('no: ' ~ {self.expression(1)}) }}}}" + self.tag("endif")
        if depth <= 0 or self.random.random() < 0.4:
            return self.pick(["{{", "{{-"]) + f" {self.expression(self.random.randrange(4))} " + self.pick(["}}", "-}}"])
        fill = lambda text: text.replace("%e", self.expression(1)).replace("%l", self.pick(LISTS))
        first, *rest = fill(self.pick(STATEMENTS)).split("|el")
        word = first.split("(")[0].split()[0]
        text = self.tag(first)
        if "=" in first and word == "set":
            return text
        text += self.body(depth)
        for part in rest:
            text += self.tag("el" + part) + self.body(depth)
        return text + self.tag("end" + word)

    def template(self):
        start = "{% set ns = namespace(v=1) %}{% macro f(a, b=7) %}<{{ a }}{{ b }}"
        start += self.pick(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(9) if caller }}"])
        return start + ">{% endmacro %}" + self.body(self.random.randint(1, 4))


# ---- both programs -----------------------------------------------------------------------------

def too_long(*_):
    raise TimeoutError


def render(env, source, variables):
    """(text, None), (None, message) or None where the answer means nothing."""
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        text = str(env.from_string(source).render(**json.loads(variables)))
        text.encode()
    except (TimeoutError, UnicodeEncodeError):
        return None
    except Exception as e:
        message = f"{type(e).__name__}: {e}"
        return None if re.search("name '(inf|nan)' is not|float infinity", message) else (None, message)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None if re.search("0x[0-9a-f]{6,}|generator object", text) else (text, None)


def answers(templates, variables):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for source in templates:
            file.write(f'{{"template": {json.dumps(source)}, "vars": {variables}}}\n')
        file.flush()
        out = subprocess.run([PUMICE, "template", "--now", NOW, "--jsonl", file.name], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in out.stdout.decode().rstrip("\n").split("\n")]


def equal(wanted, found):
    text, message = wanted
    if message is None:
        return found.get("text") == text
    raised = message.removeprefix("TemplateError: ")
    # An error is one line in pumice.
    return "error" in found and (raised == message or re.sub(r"[\0-\x1f\x7f]", " ", raised) == found["error"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")
    with open(os.path.join(ROOT, "tests", "chat", "data", "unit_vars.json")) as file:
        variables = json.dumps(json.load(file))
    maker, env = Maker(args.seed), environment()
    templates = list({maker.template(): None for _ in range(args.n)})
    n = texts = differ = 0
    for source, found in zip(templates, answers(templates, variables), strict=True):
        wanted = render(env, source, variables)
        if wanted is None:
            continue
        n += 1
        texts += wanted[0] is not None
        if equal(wanted, found):
            continue
        differ += 1
        if differ <= args.show:
            print(f"{source!r}\n  jinja2 {jinja2.__version__}: {wanted}\n  pumice: {found}")
    print(f"{n} templates, {texts} of them render: {differ} differ (seed {args.seed}, Jinja2 {jinja2.__version__})")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
