package bench

import (
	"context"
	"testing"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/txl"
)

func TestProf(t *testing.T) {
	m, _ := model.Default()
	n := 3800
	m, _ = m.WithLengths(txl.Lengths{MemLen: &n})
	s, _ := model.New("s", m.LM, nil, m.Chunk, nil)
	r, err := Run(context.Background(), s, Options{Threads: 1, Seconds: 5, Only: []string{Chunks}})
	t.Log(r.Rows, err)
}
