// Templates for files that bring none, and for the option "template". Each writes the turns of its
// model family in the plainest way; a model's own template knows more (tools, thinking).
#include "chat/conversation.h"

#include <string.h>

typedef struct builtin {
    const char *name, *source;
} builtin;

static const builtin builtins[] = {
    {"chatml", "{%- for m in messages -%}"
               "{{ '<|im_start|>' + m.role + '\\n' }}{{ m.content }}{{ '<|im_end|>\\n' }}"
               "{%- endfor -%}"
               "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"},
    {"llama3",
     "{{- bos_token }}"
     "{%- for m in messages -%}"
     "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}{{ m.content | trim }}"
     "{{ '<|eot_id|>' }}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"},
    {"gemma", "{{- bos_token }}"
              "{%- set ns = namespace(system='') -%}"
              "{%- for m in messages -%}"
              "{%- if m.role == 'system' -%}{%- set ns.system = m.content ~ '\\n\\n' -%}"
              "{%- else -%}"
              "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' }}"
              "{%- if m.role == 'user' -%}{{ ns.system }}{%- set ns.system = '' -%}{%- endif -%}"
              "{{ m.content | trim }}{{ '<end_of_turn>\\n' }}"
              "{%- endif -%}"
              "{%- endfor -%}"
              "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"},
    {"mistral", "{{- bos_token }}"
                "{%- set ns = namespace(system='') -%}"
                "{%- for m in messages -%}"
                "{%- if m.role == 'system' -%}{%- set ns.system = m.content ~ '\\n\\n' -%}"
                "{%- elif m.role == 'assistant' -%}{{ ' ' }}{{ m.content | trim }}{{ eos_token }}"
                "{%- else -%}{{ '[INST] ' }}{{ ns.system }}{%- set ns.system = '' -%}"
                "{{ m.content | trim }}{{ ' [/INST]' }}"
                "{%- endif -%}"
                "{%- endfor -%}"},
    {"phi3", "{%- for m in messages -%}"
             "{{ '<|' + m.role + '|>\\n' }}{{ m.content }}{{ '<|end|>\\n' }}"
             "{%- endfor -%}"
             "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
    {"plain", "{%- for m in messages -%}"
              "{%- if m.role == 'system' -%}{{ m.content }}{{ '\\n\\n' }}"
              "{%- else -%}{{ m.role | capitalize }}{{ ': ' }}{{ m.content }}{{ '\\n' }}"
              "{%- endif -%}"
              "{%- endfor -%}"
              "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"},
};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

const char *conversation_builtin(const char *name, size_t *n)
{
    for (size_t i = 0; i < N_BUILTINS; i++) {
        if (strcmp(builtins[i].name, name) != 0) continue;
        *n = strlen(builtins[i].source);
        return builtins[i].source;
    }
    return NULL;
}

const char *conversation_builtin_name(size_t index)
{
    return index < N_BUILTINS ? builtins[index].name : NULL;
}
