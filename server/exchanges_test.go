package server

import (
	"slices"
	"strings"

	"github.com/lmserve/lmserve/server/contract"
)

// exchange is a request to the server. The contract shows the request and its answer as an example
// of an operation.
type exchange struct {
	// operation and case, such as "score.words"; the contract's examples append .request and
	// .answer
	name    string
	summary string
	request string   // method and path
	body    string   // "" for no body; "{export}" is replaced by the last exported file
	headers []string // pairs of name and value; "{etag}" is replaced by the last ETag
}

const watchedText = "GET /about.html 200\n"

const someLines = "GET /index.html 200\nGET /about.html 200\nGET /index.html 304\n"

const (
	textBody = "text/plain"
	aFile    = "The first bytes of the tar archive, as characters"
)

// exchanges run in this order on a server with the embedded model and an empty data folder. Later
// requests use the results of earlier requests.
var exchanges = slices.Concat(exchangesOfSessions, exchangesOfText, exchangesOfCopies,
	exchangesOfOpenAI, exchangesOfEditors, exchangesOfTabby, exchangesOfTheServer,
	exchangesThatFail)

var exchangesOfSessions = []exchange{
	{
		"createSession.made", "A session with a baseline and a label", "POST /v1/sessions",
		`{"seed":1,"settings":{"baseline":true},"labels":{"host":"web-1"},"ttl_seconds":86400}`,
		nil,
	},
	{
		"putSession.made", "No session has this name yet", "PUT /v1/sessions/web-1",
		`{"settings":{"chunk":32},"seed":7,"labels":{"host":"web-1","old":"yes"}}`, nil,
	},
	{
		"putSession.found", "A matching session exists",
		"PUT /v1/sessions/web-1",
		`{"settings":{"chunk":32}}`, nil,
	},
	{
		"putSession.shadow", "A shadow of a session, with larger chunks",
		"PUT /v1/sessions/web-1-next", `{"shadow_of":"web-1","settings":{"chunk":128},"seed":7}`,
		nil,
	},
	{
		"patchSession.detached", "A shadow becomes an ordinary session",
		"PATCH /v1/sessions/web-1-next", `{"shadow_of":null}`, nil,
	},
	{
		"patchSession.merged", "One label is changed, and another label is removed",
		"PATCH /v1/sessions/web-1",
		`{"labels":{"host":"web-2","old":null},"ttl_seconds":86400}`, nil,
	},
	{
		"patchSession.renamed", "A session is renamed", "PATCH /v1/sessions/web-1-next",
		`{"name":"web-2"}`, nil,
	},
}

var exchangesOfText = []exchange{
	{
		"score.summary", "Text fed at a given offset, and the summary of its score",
		"POST /v1/sessions/web-1/score?offset=0", someLines, nil,
	},
	{
		"score.events", "Events of one chunk and of a part of the next chunk",
		"POST /v1/sessions/web-1/score", "GET /index.html 200\nGET /about",
		[]string{"Accept", contract.MediaEventStream},
	},
	{
		"score.lines", "Scores of lines with the cost of each byte, without learning",
		"POST /v1/sessions/web-1/score?unit=line&tokens=true&learn=false",
		".html 200\nrm -rf /\n", []string{"Accept", contract.MediaNDJSON},
	},
	{
		"score.line", "The score of one line, not streamed",
		"POST /v1/sessions/web-1/score?unit=line&wait=10s", ".html 200\nGET /index.html 200\n",
		[]string{"Content-Type", contract.MediaOctetStream},
	},
	{
		"score.json", "Text in JSON", "POST /v1/sessions/web-1/score?learn=false",
		`{"text":"GET /logo.png 404\n"}`, nil,
	},
	{
		"score.records", "Records of a log shipper, scored as lines",
		"POST /v1/sessions/web-1/score?unit=line&field=method,path,status&learn=false",
		`{"method":"GET","path":"/a","status":200}` + "\n" +
			`{"method":"GET","path":"/b","status":404}` + "\n",
		[]string{"Content-Type", contract.MediaNDJSON},
	},
	{
		"score.base64", "Bytes as base64 in JSON, with the log-probability of each byte",
		"POST /v1/sessions/web-1/score?learn=false&logprobs=true", `{"base64":"R0VUIP8K"}`,
		[]string{"Accept", contract.MediaEventStream},
	},
	{
		"scoreTexts.two", "Two independent texts, scored by the static model too", "POST /v1/score",
		`{"texts":["the cat sat","the cat sat on the mat"],"settings":{"method":"static"}}`, nil,
	},
	{
		"complete.whole", "The likeliest completion", "POST /v1/sessions/web-1/complete",
		`{"prompt":"GET /","max_tokens":16,"temperature":0,"stop":"\n","seed":1,"logprobs":true}`,
		nil,
	},
	{
		"complete.streamed", "A completion as a stream", "POST /v1/sessions/web-1/complete",
		`{"prompt":"GET /","max_tokens":4,"temperature":0,"seed":1,"stream":true}`, nil,
	},
	{
		"suggest.line", "Suggestions for the rest of a line", "POST /v1/sessions/web-1/suggest",
		`{"typed":"GET /","n":2}`, nil,
	},
	{
		"watchSession.chunks",
		"The events for text fed by another request, with an update of the fast weights",
		"GET /v1/sessions/web-1/events?updates=true", "",
		[]string{"Accept", contract.MediaEventStream},
	},
	{
		"watchSession.lines", "The events for lines fed by another request",
		"GET /v1/sessions/web-1/events?unit=line",
		"",
		[]string{"Accept", contract.MediaNDJSON},
	},
	{
		"getText.part", "The second line of a session's text",
		"GET /v1/sessions/web-1/text?offset=20&length=20",
		"", nil,
	},
	{
		"getScores.two", "The scores of a session's text, divided into two parts",
		"GET /v1/sessions/web-1/scores?points=2",
		"",
		nil,
	},
	{"listIncidents.all", "The session's incidents", "GET /v1/sessions/web-1/incidents", "",
		nil},
	{
		"giveFeedback.back", "A verdict is removed",
		"POST /v1/sessions/web-1/feedback", `{"incident":12}`, nil,
	},
	{"getSession.used", "A session with text", "GET /v1/sessions/web-1", "", nil},
	{
		"listSessions.page", "A page with one session", "GET /v1/sessions?limit=1&label=host",
		"", nil,
	},
}

var exchangesOfCopies = []exchange{
	{
		"forkSession.early", "A fork with a name, at an offset", "POST /v1/sessions/web-1/fork",
		`{"at_offset":20,"name":"branch","labels":{"branch":"b"}}`, nil,
	},
	{"getSnapshot.file", aFile, "GET /v1/sessions/web-1/snapshot", "", nil},
	{
		"importSession.file", "Import of an exported file, with a name for the session",
		"POST /v1/sessions/import?name=copy", "{export}",
		[]string{"Content-Type", contract.MediaTar},
	},
	{
		"importSession.bytes", "Import of an exported file", "POST /v1/sessions/import",
		"{export}", []string{"Content-Type", contract.MediaOctetStream},
	},
	{"deleteSession.gone", "The session is deleted", "DELETE /v1/sessions/branch", "", nil},
}

var exchangesOfOpenAI = []exchange{
	{"listModels.one", "The only model", "GET /v1/models", "", nil},
	{"getModel.byName", "A model found by name", "GET /v1/models/lmserve-default", "", nil},
	{
		"createCompletion.session", "Continue a session",
		"POST /v1/completions",
		`{"model":"lmserve-default","prompt":"GET /","max_tokens":16,"temperature":0,` +
			`"stop":["\n"],"seed":1}`,
		[]string{"X-Session-ID", "web-1"},
	},
	{
		"createCompletion.streamed", "A stream, with the numbers of tokens at the end",
		"POST /v1/completions",
		`{"model":"lmserve-default","prompt":"The ship sailed","max_tokens":3,"temperature":0,` +
			`"seed":1,"stream":true,"stream_options":{"include_usage":true}}`, nil,
	},
	{
		"createCompletion.scored", "Log-probabilities of a prompt, without a completion",
		"POST /v1/completions",
		`{"model":"lmserve-default","prompt":"INFO","max_tokens":0,"echo":true,"logprobs":1,` +
			`"seed":1}`, nil,
	},
	{
		"createCompletion.committed", "The session learns the prompt and the completion",
		"POST /v1/completions",
		`{"prompt":"GET /","max_tokens":16,"temperature":0,"stop":["\n"],"seed":1,"commit":"all"}`,
		[]string{"X-Session-ID", "copy"},
	},
	{
		"createCompletion.suggested", "Suggestions for an editor",
		"POST /v1/completions",
		`{"prompt":"GET /","n":2,"suggest":{"unit":"line","min_probability":0.05}}`,
		[]string{"X-Session-ID", "web-1"},
	},
	{
		"tokenize.text", "The tokens of a text of five bytes",
		"POST /tokenize", `{"prompt":"café"}`, nil,
	},
	{
		"detokenize.tokens", "Five bytes, given as tokens", "POST /detokenize",
		`{"tokens":[99,97,102,195,169]}`, nil,
	},
	{"tokenizerInfo.bytes", "The tokenizer of a model of bytes", "GET /tokenizer_info", "", nil},
	{
		"exportLogs.line", "An OpenTelemetry record", "POST /v1/logs",
		`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name",` +
			`"value":{"stringValue":"web-1"}}]},` +
			`"scopeLogs":[{"logRecords":[{"timeUnixNano":"1795795200000000000",` +
			`"body":{"stringValue":"GET /c 200"}}]}]}]}`, nil,
	},
	{
		"pushLoki.line", "A Loki entry", "POST /loki/api/v1/push",
		`{"streams":[{"stream":{"app":"web-1"},"values":[["1795795200000000000","GET /d 200"]]}]}`,
		nil,
	},
}

// middle has the JSON fields of a request to fill the gap between a prompt and a suffix.
const middle = `"prompt":"GET /index.html 200\nGET /about.html 200\nGET /in","suffix":" 200\n",` +
	`"max_tokens":24,"random_seed":1`

// marked is a prompt with markers for the gap in middle.
const marked = `<fim_prefix>GET /index.html 200\nGET /about.html 200\n` +
	`GET /in<fim_suffix> 200\n<fim_middle>`

var exchangesOfEditors = []exchange{
	{
		"fillMiddle.filled", "A text between a prefix and a suffix", "POST /v1/fim/completions",
		`{` + middle + `}`, nil,
	},
	{
		"fillMiddle.streamed", "The filled-in text as a stream of one event",
		"POST /v1/fim/completions",
		`{` + middle + `,"stream":true}`, nil,
	},
	{
		"generateText.filled", "A prompt with markers around prefix and suffix", "POST /generate",
		`{"inputs":"` + marked + `","parameters":{"max_new_tokens":24,"do_sample":false}}`, nil,
	},
	{
		"ollamaGenerate.filled", "A prompt with markers around prefix and suffix",
		"POST /api/generate",
		`{"model":"default","prompt":"` + marked + `","stream":false,` +
			`"options":{"num_predict":24}}`, nil,
	},
	{
		"llamaCompletion.filled", "A prompt with markers around prefix and suffix",
		"POST /completion",
		`{"prompt":"` + marked + `","n_predict":24}`, nil,
	},
	{
		"llamaCompletion.streamed", "The filled-in text as a stream of one event",
		"POST /completion",
		`{"prompt":"` + marked + `","n_predict":24,"stream":true}`, nil,
	},
	{
		"llamaInfill.filled", "A place to fill, and another file as context", "POST /infill",
		`{"input_extra":[{"text":"GET /index.html 200\n"}],` +
			`"input_prefix":"GET /about.html 200\n",` +
			`"prompt":"GET /in","input_suffix":" 200\n","n_predict":24}`, nil,
	},
	{
		"llamaInfill.streamed", "The filled-in text as a stream of one event", "POST /infill",
		`{"prompt":"GET /index.html 200\nGET /in","input_suffix":" 200\n","n_predict":24,` +
			`"stream":true}`, nil,
	},
}

var exchangesOfTabby = []exchange{
	{
		"tabbyComplete.filled", "A text between a prefix and a suffix",
		"POST /tabby/v1/completions",
		`{"language":"text","segments":{"prefix":"GET /index.html 200\nGET /in",` +
			`"suffix":" 200\n"},"seed":1}`, nil,
	},
	{"tabbyHealth.there", "The server is up", "GET /tabby/v1/health", "", nil},
}

var exchangesOfTheServer = []exchange{
	{"backup.whole", aFile, "GET /v1/admin/backup", "", nil},
	{
		"backup.rest", "The backup from a given byte on", "GET /v1/admin/backup", "",
		[]string{"If-Match", "{etag}", "Range", "bytes=100-"},
	},
	{"metrics.beginning", "The beginning of the metrics", "GET /metrics", "", nil},
	{
		"metrics.openmetrics", "The beginning of the metrics, in the OpenMetrics format",
		"GET /metrics", "",
		[]string{"Accept", "application/openmetrics-text"},
	},
	{"health.alive", "The process is alive", "GET /healthz", "", nil},
	{"ready.ready", "The server accepts new work", "GET /readyz", "", nil},
	{"home.page", "The beginning of the web page", "GET /", "", nil},
	{"pageStyle.style", "The beginning of the web page's style sheet", "GET /page.css", "", nil},
	{"pageScript.script", "The beginning of the web page's script", "GET /page.js", "", nil},
	{"docs.page", "The beginning of the documentation page", "GET /docs", "", nil},
	{"contract.document", "The beginning of this document", "GET /openapi.yaml", "", nil},
}

// exchangesOfWords run on a server with a small model of words, whose weights are random.
var exchangesOfWords = []exchange{
	{"getModel.words", "A model whose tokens are words", "GET /v1/models/small", "", nil},
	{
		"putSession.words", "A session with a model of words", "PUT /v1/sessions/story",
		`{"seed":7,"settings":{"baseline":true}}`, nil,
	},
	{
		"score.words", "Text with an unknown word and an unfinished last word",
		"POST /v1/sessions/story/score", "The cat sat on the zebra .\nthe do",
		[]string{"Content-Type", textBody},
	},
	{
		"score.wordEvents",
		"Text that completes an unfinished word, with the likeliest words at each position",
		"POST /v1/sessions/story/score?logprobs=true&top_logprobs=2", "g sat\n",
		[]string{"Accept", contract.MediaNDJSON},
	},
	{"getSession.words", "A session with a model of words", "GET /v1/sessions/story", "", nil},
	{
		"complete.words", "Sampled words, with the likeliest words at each position",
		"POST /v1/sessions/story/complete",
		`{"prompt":"the cat","max_tokens":4,"seed":1,"logprobs":true,"top_logprobs":2}`, nil,
	},
	{
		"complete.static", "A completion from the static model",
		"POST /v1/sessions/story/complete",
		`{"prompt":"the cat","max_tokens":4,"seed":1,"from":"static"}`, nil,
	},
	{
		"createCompletion.words", "Log-probabilities of words", "POST /v1/completions",
		`{"model":"small","prompt":"the cat zebra","max_tokens":2,"echo":true,"logprobs":1,` +
			`"seed":1}`,
		[]string{"X-Session-ID", "story"},
	},
	{
		"tokenize.words", "Text as tokens (words and line ends)", "POST /tokenize",
		`{"prompt":"the cat\nthe zebra"}`, nil,
	},
	{
		"detokenize.words", "Word tokens converted to text, with <unk> for an unknown word",
		"POST /detokenize", `{"tokens":[1,5,0,1,3]}`, nil,
	},
	{"tokenizerInfo.words", "The tokenizer of a model of words", "GET /tokenizer_info", "", nil},
}

// exchangesThatFail get errors in the form of OpenAI's interface.
var exchangesThatFail = []exchange{
	{
		"openai.invalid-field", "An unsupported field", "POST /v1/completions",
		`{"model":"lmserve-default","prompt":"x","best_of":3}`, nil,
	},
	{
		"openai.invalid-parameter", "An unknown parameter", "POST /v1/completions?n=2",
		`{"model":"lmserve-default","prompt":"x"}`, nil,
	},
	{"openai.malformed-body", "A body that is not JSON", "POST /v1/completions", `{"model":`, nil},
	{
		"openai.model-not-found", "An unknown model", "POST /v1/completions",
		`{"model":"gpt-5","prompt":"x"}`, nil,
	},
	{
		"openai.session-not-found", "An unknown session", "POST /v1/completions",
		`{"model":"lmserve-default","prompt":"x"}`, []string{"X-Session-ID", "none"},
	},
}

func (x exchange) split() (method, path string) {
	method, path, _ = strings.Cut(x.request, " ")
	return method, path
}

// sent returns the request's headers. If the headers of a request with a body lack a Content-Type,
// sent adds it: JSON if the body is an object, else text.
func (x exchange) sent() []string {
	switch {
	case x.body == "" || slices.Contains(x.headers, "Content-Type"):
		return slices.Clone(x.headers)
	case strings.HasPrefix(x.body, "{"):
		return append([]string{"Content-Type", contract.MediaJSON}, x.headers...)
	}
	return append([]string{"Content-Type", textBody}, x.headers...)
}
