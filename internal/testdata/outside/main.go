// Command outside is a program of another module, which uses every public package of this one.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/lmserve/lmserve"
	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/sparsemeta/metatrain"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

func main() {
	for _, use := range []func() error{stream, adapt, ask} {
		if err := use(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("ok")
}

// stream uses the package in the root.
func stream() error {
	model, err := lmserve.Default(lmserve.Options{Threads: 2})
	if err != nil {
		return err
	}
	defer model.Close()
	s, err := model.Open(model.Settings())
	if err != nil {
		return err
	}
	s.Feed([]byte("a program of another module"))
	var file bytes.Buffer
	if err := s.Snapshot(&file); err != nil {
		return err
	}
	again, err := model.Restore(&file)
	if err != nil {
		return err
	}
	if again.Tally() != s.Tally() {
		return fmt.Errorf("found %v, want %v", again.Tally(), s.Tally())
	}
	_, err = again.Complete(nil, 3, txl.Sampling{Temperature: 1})
	return err
}

// adapt puts the packages together by hand, as internal/arithmetic/stream does: a chunk is scored,
// its gradient writes the fast weights, and the next chunk is scored with them.
func adapt() error {
	config := txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12,
		Vocab: tokenizer.Bytes{}.Vocab(), SegLen: 8, MemLen: 8}
	model, err := txl.NewModel(config)
	if err != nil {
		return err
	}
	model.Init(1)
	const name = "layers.0.pos_ff.CoreNet.0.weight"
	index := model.Layout.Index(name)
	learner := &sparsemeta.Learner{
		Branches: []sparsemeta.Branch{{Name: name, Size: model.Layout.Tensors[index].Size}},
		Settings: sparsemeta.PaperSettings(),
	}
	learner.Init(sparsemeta.InitSmall(), 1)
	trainer, err := metatrain.New(learner, metatrain.Options{})
	if err != nil {
		return err
	}
	defer trainer.Close()

	x := txl.NewExec(2)
	defer x.Close()
	var both *sparsemeta.Exec = x
	state := sparsemeta.NewState(learner.Branches, 1, 1, sparsemeta.BF16)
	fast, gradient := make([]float32, learner.Size()), make([]float32, learner.Size())
	m, g := make(txl.Fast, len(model.Layout.Tensors)), make(txl.Grads, len(model.Layout.Tensors))
	m[index], g[index] = fast, gradient

	segment, memory := txl.NewSegment(config, 1, config.SegLen), txl.NewMemory(config, 1)
	var tally tokenizer.Tally
	ids := tokenizer.Bytes{}.Encode(nil, []byte("abcdabcda"))
	nll := make([]float32, len(ids)-1)
	for range 3 {
		segment.Begin(x, model, m, memory)
		segment.Extend(x, ids[:len(ids)-1])
		segment.NLL(0, ids[1:], nll)
		segment.Backward(x, ids[1:], g)
		state.Update(both, trainer.Tables(), learner.Settings, nil, gradient, fast)
		segment.Remember(memory)
		tally.Add(tokenizer.Tally{Bytes: int64(len(nll))})
	}
	if tally.Bytes != 24 || state.RMS(x.Vectors) == 0 {
		return fmt.Errorf("%d bytes, fast weights of %v", tally.Bytes, state.RMS(x.Vectors))
	}
	held := sparsemeta.Array{F32: fast}
	f := &weights.File{Tensors: []weights.Tensor{weights.F32Tensor(name, []int{held.Len()}, fast)}}
	return weights.Write(new(bytes.Buffer), f)
}

// ask uses the client, with nobody there to answer.
func ask() error {
	nobody := &http.Client{Transport: refused{}}
	c, err := client.New("http://localhost:8080", client.WithHTTPClient(nobody),
		client.WithKey("lms_x_y"))
	if err != nil {
		return err
	}
	_, err = c.Feed(context.Background(), "web-1", strings.NewReader("a line\n"),
		client.FeedOptions{
			Score: client.ScoreOptions{Lines: true, Learn: client.LearnUnflagged},
		})
	if !client.Is(err, client.ProblemUnauthorized) {
		return fmt.Errorf("found %v, want %s", err, client.ProblemUnauthorized)
	}
	return nil
}

// refused answers every request with a problem.
type refused struct{}

func (refused) RoundTrip(r *http.Request) (*http.Response, error) {
	problem := fmt.Sprintf(`{"type": %q, "title": "no", "status": 401}`, client.ProblemUnauthorized)
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Request: r,
		Body:   io.NopCloser(strings.NewReader(problem)),
		Header: http.Header{"Content-Type": {"application/problem+json"}},
	}, nil
}
