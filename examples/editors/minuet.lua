-- minuet-ai.nvim for Neovim: it calls POST /v1/completions of the server
-- (`lmserve serve --model swift`) with prompt and suffix.
require('minuet').setup {
    provider = 'openai_fim_compatible',
    n_completions = 1, -- requests per place
    context_window = 16000, -- characters before and after the cursor
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
            api_key = function() -- the server's key; any non-empty text without keys
                return os.getenv 'LMSERVE_KEY' or 'none'
            end,
            stream = true,
            optional = { max_tokens = 64, temperature = 0, stop = { '\n\n' } },
        },
    },
}
