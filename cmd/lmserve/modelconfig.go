package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/txl"
)

func configUsage() string {
	return "the name of a configuration (" + strings.Join(txl.Names(), ", ") +
		") or a JSON file with a configuration (name.json)"
}

// readConfig returns a valid configuration and its name. The parameter name is the name of a known
// configuration or of a .json file. A nonzero vocab replaces the configuration's vocabulary size.
func readConfig(ctx context.Context, name string, vocab int) (string, txl.Config, error) {
	c, short, err := txl.Config{}, name, error(nil)
	if filepath.Ext(name) != ".json" {
		c, err = txl.Named(name)
	} else {
		var text []byte
		if text, err = readBounded(ctx, name); err == nil {
			err = strictjson.Unmarshal(text, &c)
		}
		short = strings.TrimSuffix(filepath.Base(name), ".json")
	}
	if vocab > 0 {
		c.Vocab = vocab
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return "", txl.Config{}, usagef("--config %s: %w", name, err)
	}
	return short, c, nil
}

const configBytesMax = 1 << 20

func readBounded(ctx context.Context, name string) ([]byte, error) {
	f, err := openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &patientReader{ctx: ctx, in: f}
	text, err := io.ReadAll(io.LimitReader(in, configBytesMax+1))
	if err == nil && len(text) > configBytesMax {
		err = fmt.Errorf("%s has more than %d bytes, expected fewer in a file of settings",
			name, configBytesMax)
	}
	return text, err
}
