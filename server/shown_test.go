package server

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/lmserve/lmserve/server/contract"
)

// updateExamples names an environment variable. If the variable is set, the tests write the
// server's answers as examples into api/openapi.yaml.
const updateExamples = "LMSERVE_UPDATE_EXAMPLES"

// The number of bytes that an example shows of a web page or of an exported file.
const (
	pageShown = 24
	fileShown = 9 // The first nine bytes are the same in every exported file.
)

// shown is one example in the contract, api/openapi.yaml.
type shown struct {
	Summary string            `yaml:"summary,omitempty"`
	Request string            `yaml:"x-request,omitempty"`
	Headers map[string]string `yaml:"x-headers,omitempty"`
	Status  int               `yaml:"x-status,omitempty"`
	Value   yaml.Node         `yaml:"value"`
}

var newExamples = struct {
	sync.Mutex
	named map[string]shown
}{named: map[string]shown{}}

// writeExamples writes the collected examples into api/openapi.yaml and leaves all other examples
// unchanged.
func writeExamples() error {
	const file = "../api/openapi.yaml"
	const begin, end = "# BEGIN GENERATED examples", "# END GENERATED examples"
	if len(newExamples.named) == 0 {
		return nil
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, _ := strings.Cut(string(old), begin)
	head, rest, _ := strings.Cut(rest, "\n")
	part, after, ok := strings.Cut(rest, "    "+end)
	if !ok {
		return fmt.Errorf("%s: expected lines with %q and %q", file, begin, end)
	}
	all := map[string]shown{}
	if err := yaml.Unmarshal([]byte(part), &all); err != nil {
		return err
	}
	maps.Copy(all, newExamples.named)
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var one bytes.Buffer
		e := yaml.NewEncoder(&one)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(map[string]shown{name: all[name]}), e.Close()); err != nil {
			return err
		}
		for line := range strings.Lines(one.String()) {
			if strings.TrimSpace(line) != "" {
				line = "    " + strings.TrimRight(line, " \n") + "\n"
			}
			b.WriteString(line)
		}
	}
	text := before + begin + head + "\n" + b.String() + "    " + end + after
	return os.WriteFile(file, []byte(text), 0o644)
}

// requireExample requires that a body equals an example in api/openapi.yaml. If the environment
// variable updateExamples is set, a different body becomes the new example.
func requireExample(t *testing.T, name string, s shown, media string, raw []byte) {
	t.Helper()
	s.Value = valueOf(t, media, raw)
	if os.Getenv(updateExamples) == "" {
		requireShown(t, document(t), name, s)
		return
	}
	if !passes(func(v require.TestingT) { requireShown(v, document(t), name, s) }) {
		newExamples.Lock()
		defer newExamples.Unlock()
		newExamples.named[name] = s
	}
}

func requireShown(t require.TestingT, doc *openapi3.T, name string, s shown) {
	ref := doc.Components.Examples[name]
	require.NotNil(t, ref, "the contract has no example %s; %s=1 makes it", name, updateExamples)
	found := ref.Value
	require.Equal(t, s.Summary, found.Summary, name)
	if s.Request != "" {
		headers, _ := found.Extensions["x-headers"].(map[string]any)
		require.Equal(t, s.Request, found.Extensions["x-request"], name)
		require.Equal(t, fmt.Sprint(s.Headers), fmt.Sprint(headers), name)
		require.EqualValues(t, s.Status, found.Extensions["x-status"], name)
	}
	var got any
	require.NoError(t, s.Value.Decode(&got))
	requireAlike(t, name, "", jsonValue(t, found.Value), jsonValue(t, got))
}

// verdict records a check's failure without ending the test.
type verdict struct{ failed bool }

func (v *verdict) Errorf(string, ...any) { v.failed = true }

func (v *verdict) FailNow() { runtime.Goexit() }

func passes(check func(require.TestingT)) bool {
	var v verdict
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(&v)
	}()
	<-done
	return !v.failed
}

// valueOf returns a body as the value of an example: JSON as a YAML node, and text as a string. Of
// other bodies it returns only the first bytes, each as a character.
func valueOf(t *testing.T, media string, raw []byte) yaml.Node {
	t.Helper()
	var n yaml.Node
	switch media {
	case contract.MediaJSON, contract.MediaProblem:
		var document yaml.Node
		require.NoError(t, yaml.Unmarshal(raw, &document))
		n = *document.Content[0]
		asBlocks(&n)
		return n
	case contract.MediaEventStream, contract.MediaNDJSON, textBody:
		n.SetString(string(raw))
	default:
		most := pageShown
		if media == contract.MediaTar {
			most = fileShown
		}
		var runes []rune
		for _, b := range raw[:min(len(raw), most)] {
			runes = append(runes, rune(b))
		}
		n.SetString(string(runes))
	}
	return n
}

// asBlocks formats objects with one field per line, and lists of plain values on one line.
func asBlocks(n *yaml.Node) {
	flat := n.Kind == yaml.SequenceNode || len(n.Content) == 0
	for i, child := range n.Content {
		asBlocks(child)
		if child.Kind != yaml.ScalarNode {
			flat = false
		}
		// A key with a line feed keeps its quotes. The encoder's unquoted form of "\n" would read
		// as an empty key.
		if n.Kind == yaml.MappingNode && i%2 == 0 && !strings.Contains(child.Value, "\n") {
			child.Style = 0
		}
	}
	if n.Kind != yaml.ScalarNode && !flat {
		n.Style = 0
	}
}
