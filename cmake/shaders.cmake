# Embeds the compute shaders: every line of shaders/variants.txt ("NAME FILE OPTIONS...") becomes a
# SPIR-V header in the build folder, and all of them one table, shader_table.h. A shader error stops
# the build; a changed header (.glsl, push.h) rebuilds what includes it. GLSLANG is the compiler.

function(pumice_embed_shaders target)
    set(source_dir ${PROJECT_SOURCE_DIR}/shaders)
    set(out_dir ${PROJECT_BINARY_DIR}/shaders)
    file(MAKE_DIRECTORY ${out_dir})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source_dir}/variants.txt)
    file(STRINGS ${source_dir}/variants.txt lines REGEX "^[^#]")
    set(includes "")
    set(rows "")
    foreach(line IN LISTS lines)
        separate_arguments(words UNIX_COMMAND "${line}")
        list(POP_FRONT words name file)
        set(header ${out_dir}/${name}.h)
        add_custom_command(
            OUTPUT ${header}
            COMMAND ${GLSLANG} -V --quiet --target-env vulkan1.1 -I${source_dir} ${words}
                    --vn spirv_${name} --depfile ${header}.d -o ${header} ${source_dir}/${file}
            DEPENDS ${source_dir}/${file} ${source_dir}/variants.txt
            DEPFILE ${header}.d
            COMMENT "shader ${name}"
            VERBATIM)
        list(APPEND headers ${header})
        string(APPEND includes "#include \"${name}.h\"\n")
        string(APPEND rows "    {\"${name}\", spirv_${name}, sizeof spirv_${name}},\n")
    endforeach()
    file(GENERATE OUTPUT ${out_dir}/shader_table.h CONTENT
"// Made by cmake/shaders.cmake from shaders/variants.txt.
${includes}
static const vk_shader shader_table[] = {
${rows}};
")
    add_custom_target(${target}_shaders DEPENDS ${headers})
    add_dependencies(${target} ${target}_shaders)
    target_include_directories(${target} PRIVATE ${out_dir})
endfunction()
