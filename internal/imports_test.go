// Package internal_test holds the table of who may import whom.
package internal_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/lmserve/lmserve/"

// root is the name of the package in the module's root.
const root = "."

// rooms lists every package and the packages of ours it may import. Text goes
// one way through them: nothing imports upwards, there are no circles, and txl
// and sparsemeta do not know each other.
var rooms = map[string][]string{
	"internal/atomicfile":  {},
	"internal/strictjson":  {},
	"internal/kernel":      {},
	"internal/setting":     {}, // the form of a table of settings: it knows none of them
	"tokenizer":            {},
	"weights":              {"internal/atomicfile", "internal/strictjson"},
	"txl":                  {"internal/kernel"},
	"sparsemeta":           {"internal/kernel"},
	"sparsemeta/metatrain": {"sparsemeta"},
	// A loaded model, and one stream through it: what session, train and eval
	// would otherwise each put together.
	"internal/model":  {"txl", "sparsemeta", "tokenizer", "weights", "internal/kernel", "internal/strictjson"},
	"internal/stream": {"txl", "sparsemeta", "tokenizer", "weights", "internal/model", "internal/kernel", "internal/setting"},
	"internal/session": {"txl", "sparsemeta", "tokenizer", "weights", "internal/model", "internal/stream", "internal/sessionlog", "internal/setting",
		"internal/session/registry", "internal/session/budget", "internal/session/lifecycle", "internal/session/scheduler"},
	// What sessions are made of knows no session, no store and no model; but for the workers.
	"internal/session/registry":  {},
	"internal/session/budget":    {},
	"internal/session/lifecycle": {},
	"internal/session/scheduler": {"internal/model", "internal/stream"},
	"internal/chart":             {},
	"internal/documents":         {},
	"internal/tune":              {"internal/setting", "internal/model", "internal/stream", "internal/eval"},
	"internal/eval":              {"txl", "sparsemeta", "tokenizer", "weights", "internal/model", "internal/stream", "internal/chart", "internal/documents"},
	"internal/train":             {"txl", "sparsemeta", "sparsemeta/metatrain", "weights", "tokenizer", "internal/model", "internal/stream", "internal/kernel", "internal/chart", "internal/documents", "internal/atomicfile", "internal/strictjson"},
	"internal/bench":             {"txl", "sparsemeta", "tokenizer", "internal/model", "internal/stream", "internal/train", "internal/kernel"},
	"internal/conformance":       {"txl", "sparsemeta", "sparsemeta/metatrain", "weights", "internal/model", "internal/stream", "internal/kernel"},
	"internal/reload":            {},
	"internal/keys":              {"internal/reload", "internal/atomicfile", "internal/strictjson"},
	"api":                        {},
	// The server decodes, calls one session method, encodes: no model code.
	// Its rooms stand in this order.
	"server/limits":   {"internal/session"},
	"server/problem":  {"api", "internal/session", "internal/keys", "server/limits"},
	"server/contract": {"api", "internal/strictjson", "server/problem"},
	"server/codec":    {"api", "internal/session", "server/limits", "server/problem"},
	"server/answer":   {"api", "server/limits", "server/problem", "server/contract"},
	"server/middleware": {
		"api", "internal/session", "internal/keys",
		"server/limits", "server/problem", "server/contract", "server/answer",
	},
	"server/handler": {
		"api", "internal/session", "internal/keys",
		"server/problem", "server/contract", "server/codec", "server/answer", "server/middleware",
	},
	"server": {
		"api", "internal/session", "internal/keys", "server/limits", "server/problem",
		"server/contract", "server/answer", "server/middleware", "server/handler",
	},
	"internal/demo": {},  // a client: it knows the binary and HTTP
	"cmd/lmserve":   nil, // nil: everything
	// What a Go program imports: text through a stream, without sessions or a server.
	root: {"txl", "tokenizer", "weights", "internal/model", "internal/stream"},
	// What is made of the table of settings: parts of the contract and of the documentation.
	"internal/generate": {"internal/setting", "internal/stream", "internal/session"},
	// The model that tests share.
	"internal/model/modeltest": {"txl", "sparsemeta", "internal/model"},
	// Sessions on the disk: bytes and their order, not what they mean.
	"internal/sessionlog":           {"internal/atomicfile"},
	"internal/sessionlog/storetest": {"internal/sessionlog"},
}

// reserved lists outside packages that only some rooms may import, and why.
var reserved = []struct {
	prefix, why string
	rooms       []string
}{
	{"gorgonia.org/", "the engine of the meta-learner and an oracle in tests; never on the serving path", []string{"sparsemeta/metatrain"}},
	{"gonum.org/v1/gonum", "the model's arithmetic is internal/kernel's", nil},
	{"gonum.org/v1/plot", "drawing is internal/chart's", []string{"internal/chart"}},
	{"net/http", "only the server and clients speak HTTP", []string{
		"server", "server/problem", "server/contract", "server/answer", "server/middleware",
		"server/handler", "api", "internal/demo", "cmd/lmserve",
	}},
	{"github.com/go-chi/", "routing is the server's", []string{
		"server", "server/contract", "server/answer", "server/middleware", "api",
	}},
	{"go.etcd.io/bbolt", "files of sessions are internal/sessionlog's", []string{"internal/sessionlog"}},
	{"github.com/spf13/", "the command line is cmd/lmserve's", []string{"cmd/lmserve"}},
	{"github.com/go-json-experiment/", "JSON held strictly to its format is internal/strictjson's", []string{"internal/strictjson"}},
	{"go.uber.org/zap", "logs are the server's; packages return errors", []string{
		"server", "server/answer", "server/middleware", "cmd/lmserve",
	}},
	{"unsafe", "only where memory is reached that Go cannot name", []string{"internal/kernel", "sparsemeta/metatrain", "weights"}},
}

func TestEveryRoomImportsOnlyWhatStandsBeforeIt(t *testing.T) {
	for room, imports := range importsByPackage(t) {
		allowed, known := rooms[room]
		require.True(t, known, "package %s is in no table: add it with what it may import", room)
		for _, path := range imports {
			ours, inside := strings.CutPrefix(path+"/", module)
			ours = cmp.Or(strings.TrimSuffix(ours, "/"), root)
			if inside && allowed != nil {
				require.Contains(t, allowed, ours, "%s may not import %s", room, ours)
			}
			for _, r := range reserved {
				if path == r.prefix || strings.HasPrefix(path, strings.TrimSuffix(r.prefix, "/")+"/") {
					require.Contains(t, r.rooms, room, "%s may not import %s: %s", room, path, r.why)
				}
			}
		}
	}
}

// importsByPackage lists the imports of all files that are no tests.
func importsByPackage(t *testing.T) map[string][]string {
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != ".." && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil {
			return err
		}
		room := filepath.ToSlash(dir)
		if found[room] == nil {
			found[room] = []string{}
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(found[room], p) {
				found[room] = append(found[room], p)
			}
		}
		return nil
	})
	require.NoError(t, err)
	return found
}
