package examples_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const local = "http://localhost:8080"

// fills sends a fill-in-the-middle request, as the editor would, and decodes the server's answer.
// Parameter url is the URL in the editor's configuration.
func (e *example) fills(t *testing.T, url string, body map[string]any, answer any) {
	t.Helper()
	require.True(t, strings.HasPrefix(url, local), url)
	body["prompt"], body["suffix"] = log()[:2000]+"sshd[812]: Acc", "\nsshd[812]: Accepted"
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	resp, err := http.Post(e.url+strings.TrimPrefix(url, local), "application/json",
		strings.NewReader(string(raw)))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	require.NoError(t, json.Unmarshal(text, answer), string(text))
}

// The test does not run the editor plugin Continue. The test sends the request that Continue would
// send with its configuration file.
func TestContinuesConfigurationIsServed(t *testing.T) {
	e := newExample(t)
	raw, err := os.ReadFile("editors/continue.yaml")
	require.NoError(t, err)
	var config struct {
		Models []struct {
			Model, Provider   string
			APIBase           string `yaml:"apiBase"`
			APIKey            string `yaml:"apiKey"`
			CompletionOptions struct {
				MaxTokens   int `yaml:"maxTokens"`
				Temperature float64
			} `yaml:"defaultCompletionOptions"`
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	require.Len(t, config.Models, 1)
	m := config.Models[0]
	require.Equal(t, "mistral", m.Provider)
	require.NotEmpty(t, m.APIKey, "Continue asks nothing without a key")
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	e.fills(t, m.APIBase+"fim/completions", map[string]any{
		"model": m.Model, "max_tokens": m.CompletionOptions.MaxTokens,
		"temperature": m.CompletionOptions.Temperature,
	}, &answer)
	require.True(t, strings.HasPrefix(answer.Choices[0].Message.Content, "epted key for "))
}

// Neovim reads the configuration. A stub that prints its options replaces the plugin Minuet,
// because Minuet needs a newer Neovim than some systems have.
func TestMinuetsConfigurationIsServed(t *testing.T) {
	e := newExample(t)
	nvim, err := exec.LookPath("nvim")
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	const printed = `lua package.preload.minuet = function() return { setup = function(o)
		local c = o.provider_options.openai_fim_compatible
		assert(type(c.api_key()) == 'string' and c.api_key() ~= '')
		c.api_key = nil
		io.stdout:write(vim.fn.json_encode(c))
	end } end`
	out, err := exec.CommandContext(t.Context(), nvim, "--headless", "-u", "NONE", "--cmd",
		strings.ReplaceAll(printed, "\n\t\t", " "), "-c", "luafile editors/minuet.lua", "-c", "q",
	).Output()
	require.NoError(t, err)
	var config struct {
		EndPoint string `json:"end_point"`
		Model    string
		Optional map[string]any
	}
	require.NoError(t, json.Unmarshal(out, &config), string(out))
	body := config.Optional
	body["model"] = config.Model
	var answer struct{ Choices []struct{ Text string } }
	e.fills(t, config.EndPoint, body, &answer)
	require.True(t, strings.HasPrefix(answer.Choices[0].Text, "epted key for "))
}
