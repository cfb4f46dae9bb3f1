-- minuet-ai.nvim for Neovim: it asks POST /v1/completions of the server
-- (`lmserve serve --model swift`) with prompt and suffix.
require('minuet').setup {
    provider = 'openai_fim_compatible',
    n_completions = 1, -- requests for one place
    context_window = 16000, -- characters before and behind the cursor
    throttle = 0,
    debounce = 100, -- milliseconds
    virtualtext = {
        auto_trigger_ft = { '*' },
        keymap = { accept = '<A-A>', accept_line = '<A-a>', next = '<A-]>', dismiss = '<A-e>' },
    },
    provider_options = {
        openai_fim_compatible = {
            name = 'lmserve',
            end_point = 'http://localhost:8080/v1/completions',
            model = 'lmserve-swift',
            api_key = function() -- a key of the server, if it asks for keys; it must not be empty
                return os.getenv 'LMSERVE_KEY' or 'none'
            end,
            stream = true,
            optional = { max_tokens = 64, temperature = 0, stop = { '\n\n' } },
        },
    },
}
