-- llama.vim for Neovim: it calls POST /infill of the server (`lmserve serve --model swift`).
-- Load this before the plugin.
vim.g.llama_config = {
    endpoint = 'http://localhost:8080/infill',
    api_key = os.getenv 'LMSERVE_KEY' or 'none',
    n_prefix = 512, -- lines
    n_predict = 64,
    ring_n_chunks = 0, -- no text of other files: it would change the text before the prefix
    show_info = 0,
}
