package contract

import "strings"

const (
	onlyCompletions = "Of OpenAI's interface, this server has /v1/completions, /v1/models and " +
		"/v1/models/{model}."
	noChat       = "This server has no chat model; use /v1/completions."
	noEmbeddings = "This server has no embeddings. " + onlyCompletions
)

// elsewhere maps the paths of OpenAI's interface that this server lacks to alternatives. The key is
// the first path segment after /v1.
var elsewhere = map[string]string{
	"assistants": noChat, "chat": noChat, "conversations": noChat, "realtime": noChat,
	"responses": noChat, "threads": noChat,
	"embeddings": noEmbeddings,
	"audio":      onlyCompletions, "batches": onlyCompletions, "containers": onlyCompletions,
	"edits": onlyCompletions, "engines": onlyCompletions, "evals": onlyCompletions,
	"files": onlyCompletions, "fine_tuning": onlyCompletions, "images": onlyCompletions,
	"moderations": onlyCompletions, "uploads": onlyCompletions, "vector_stores": onlyCompletions,
	"videos": onlyCompletions,
}

// InsteadOf returns the alternative to a missing path of OpenAI's interface, or "" for paths
// outside that interface.
func InsteadOf(path string) string {
	behind, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(behind, "/")
	return elsewhere[first]
}
