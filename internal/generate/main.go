// Command generate writes parts of files from the tables of settings. These files are the API
// contract, the overlay for the Go code generator, the documentation, and the web page's sources. A
// generated part is between a line with "BEGIN GENERATED name" and a line with "END GENERATED
// name". The rest of each file is written by hand.
//
// The command runs in the folder api, as a step of go generate. It also writes a complete contract
// to bin/openapi.yaml, the input of the Go code generator. That file is not in the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve/api/whole"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
)

func main() {
	err := run(partsOf(stream.Table, session.SamplingTable))
	if err == nil {
		err = writeWhole("openapi.yaml", wholeContract)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// wholeContract is the path of the complete API contract, the input of the Go code generator.
const wholeContract = "../bin/openapi.yaml"

func writeWhole(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, whole.Of(text), 0o644)
}

// parts maps a file's path and the name of a part to the generated text.
type parts map[string]map[string]string

const pageSettings = "../server/page/src/api/settings.ts"

func partsOf(settings setting.Table[stream.Settings],
	sampling setting.Table[session.Sampling]) parts {
	return parts{
		"openapi.yaml": {
			"limits of settings":   settings.Limits(),
			"limits of sampling":   sampling.Limits(),
			"settings of requests": settings.RequestSchema(),
			"settings in force":    settings.AnswerSchema(),
			"sampling":             sampling.RequestSchema(),
		},
		"overlay.yaml":        {"order of settings": settings.Order()},
		"../docs/settings.md": {"settings": settings.Markdown(), "sampling": sampling.Markdown()},
		pageSettings:          {"settings": settings.TypeScript()},
	}
}

func run(all parts) error {
	for file, named := range all {
		old, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := string(old)
		for name, part := range named {
			if text, err = replace(text, name, part); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if text == string(old) {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replace replaces the text between the BEGIN and END lines of a part. New lines get the
// indentation of the BEGIN line.
func replace(text, name, part string) (string, error) {
	before, rest, begins := strings.Cut(text, "BEGIN GENERATED "+name)
	_, after, ends := strings.Cut(rest, "END GENERATED "+name)
	if !begins || !ends || strings.Contains(after, "BEGIN GENERATED "+name) {
		return "", fmt.Errorf("part %q: expected one line with BEGIN GENERATED %[1]s and a later "+
			"line with END GENERATED %[1]s", name)
	}
	first, _, _ := strings.Cut(rest, "\n")
	opening := before[strings.LastIndexByte(before, '\n')+1:]
	indent := opening[:len(opening)-len(strings.TrimLeft(opening, " "))]

	var b strings.Builder
	b.WriteString(before + "BEGIN GENERATED " + name + first + "\n")
	for line := range strings.Lines(part) {
		b.WriteString(indent + line)
	}
	b.WriteString(opening + "END GENERATED " + name + after)
	return b.String(), nil
}
