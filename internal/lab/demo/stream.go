package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lmserve/lmserve/api/client"
)

// incident is the end of the log of an lmserve server. Clients feed their sessions; then the disk
// changes some bytes of the data folder.
//
//go:embed incident.log
var incident string

// novel is the second chapter of John Buchan's "The Thirty-Nine Steps" (1915), in the public
// domain.
//
//go:embed novel.txt
var novel string

// code matches the Go files of the demo's third text.
const code = "sparsemeta/*.go"

// codeBytes is the approximate length of the third text. Files are not cut.
const codeBytes = 14 << 10

// stream is a text, and the name of its session.
type stream struct {
	name, title, text string
	lines             bool

	// id of a shadow session, which reads the same text and learns only by its companion
	shadow string
}

func streams() ([]*stream, error) {
	source, err := sources()
	return []*stream{
		{
			name: "server-log", title: "a server's log, with an incident in it",
			text: incident, lines: true,
		},
		{name: "novel", title: "a chapter of a novel", text: novel},
		{name: "source-code", title: "source code of lmserve", text: source},
	}, err
}

func sources() (string, error) {
	files, err := filepath.Glob(code)
	if err == nil && len(files) == 0 {
		err = errors.New("found no file that matches " + code + ": run this program from the " +
			"root of the repository")
	}
	var text strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || text.Len() >= codeBytes || err != nil {
			continue
		}
		var content []byte
		content, err = os.ReadFile(file)
		text.Write(content)
	}
	return text.String(), err
}

func (s *stream) prepare(ctx context.Context, c *client.Client) error {
	yes, seed, static := true, uint64(1), client.MethodStatic
	_, _, err := c.EnsureSession(ctx, s.name, client.SessionRequest{
		Seed:     &seed,
		Settings: &client.SettingsRequest{Baseline: &yes},
		// The server's web page lists sessions with the label demo.
		Labels: &client.Labels{"title": s.title, "demo": "text"},
	})
	if err != nil {
		return err
	}
	shadow, err := c.CreateSession(ctx, client.SessionRequest{
		ShadowOf: &s.name,
		Settings: &client.SettingsRequest{Method: &static, Companion: &yes},
	})
	s.shadow = shadow.ID
	return err
}

// shadowBits returns the bits of the text up to the offset `end` in the shadow session. The shadow
// may reach this offset later than the stream's session, so shadowBits waits.
func (s *stream) shadowBits(ctx context.Context, c *client.Client, end int64) (float64, error) {
	for {
		shadow, err := c.GetSession(ctx, s.shadow)
		switch {
		case err != nil:
			return 0, err
		case shadow.Offset == end:
			return shadow.Totals.Bits, nil
		case shadow.ShadowOf != nil && shadow.ShadowOf.Error != nil:
			return 0, fmt.Errorf("the shadow session of %s has stopped: %s", s.name,
				*shadow.ShadowOf.Error)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rowBytes is the minimum number of bytes in a row of the table, except the last row.
const rowBytes = 2048

// rows returns the text in pieces of whole lines, one for each row of the table.
func (s *stream) rows() iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := s.text; rest != ""; {
			end := len(rest)
			if len(rest) > rowBytes {
				if n := strings.IndexByte(rest[rowBytes-1:], '\n'); n >= 0 {
					end = rowBytes + n
				}
			}
			if !yield(rest[:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// pace is the speed of a text that a user watches, in bytes per second.
const pace = 300

type paced struct {
	ctx  context.Context
	text *strings.Reader
}

func (p paced) Read(b []byte) (int, error) {
	const parts = 10
	select {
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	case <-time.After(time.Second / parts):
		return p.text.Read(b[:min(len(b), pace/parts)])
	}
}

func reader(ctx context.Context, text string, watched bool) io.Reader {
	if watched {
		return paced{ctx, strings.NewReader(text)}
	}
	return strings.NewReader(text)
}
