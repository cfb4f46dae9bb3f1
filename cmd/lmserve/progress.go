package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// byteBar shows progress over bytes of text on a terminal, and shows nothing elsewhere.
type byteBar struct {
	w     io.Writer
	label string
	bar   *progressbar.ProgressBar
}

func newByteBar(w io.Writer, label string) *byteBar {
	if !isTerminal(w) {
		w = io.Discard
	}
	return &byteBar{w: w, label: label}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (b *byteBar) set(done, total int64) {
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(b.label),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = b.bar.Set64(done) // an error of the bar is no reason to stop
}

func (b *byteBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}

// statusLine says on a terminal what is being done, and says nothing elsewhere.
type statusLine struct{ w io.Writer }

func newStatusLine(w io.Writer) statusLine {
	if !isTerminal(w) {
		w = io.Discard
	}
	return statusLine{w}
}

func (l statusLine) set(what string) { fmt.Fprintf(l.w, "\r\x1b[K%s", what) }
func (l statusLine) clear()          { fmt.Fprint(l.w, "\r\x1b[K") }
