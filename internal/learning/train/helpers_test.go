package train

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/txl"
)

// Exported helpers are also used by the tests in package train_test.

// tinyModel has about ten thousand weights.
var tinyModel = txl.Config{NLayer: 1, DModel: 24, NHead: 2, DHead: 8, DInner: 32, Vocab: 256,
	SegLen: 16, MemLen: 16}

type Card = card

// tinyClusters is a tiny model of words, with adaptive input and adaptive softmax.
var tinyClusters = txl.Config{
	NLayer: 1, DModel: 24, NHead: 2, DHead: 8, DInner: 32, SegLen: 16, MemLen: 16, PreLNorm: true,
	Cutoffs: []int{6, 12}, DivVal: 2, TieProjs: []bool{false, true, true},
}

func WriteTree(t *testing.T, files map[string]string) string {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, tree))
	return dir
}

type recorder struct{ events []Event }

func (r *recorder) Observe(e Event) error {
	r.events = append(r.events, e)
	return nil
}

func (r *recorder) notes() string {
	var b strings.Builder
	for _, e := range r.events {
		if n, ok := e.(Noted); ok {
			b.WriteString(n.Text + "\n")
		}
	}
	return b.String()
}

// WriteText writes text that is easy to predict, and returns the folder. Each of four domains has a
// few words, which no other domain has.
func WriteText(t *testing.T, bytesPerFile int) string {
	t.Helper()
	files := map[string]string{}
	for d, words := range []string{"red green blue", "one two three four", "mov add push pop",
		"<a> <b> </a> </b>"} {
		rng := rand.New(rand.NewPCG(uint64(d), 1))
		list := strings.Fields(words)
		for f := range 2 {
			var b strings.Builder
			for b.Len() < bytesPerFile {
				b.WriteString(list[rng.IntN(len(list))])
				b.WriteByte(" \n"[rng.IntN(8)/7])
			}
			files[fmt.Sprintf("domain%d/%d.txt", d, f)] = b.String()
		}
	}
	return WriteTree(t, files)
}

func TinyPretraining(t *testing.T) Options {
	return Options{
		Phases: []string{PhasePretrain}, Valid: ValidNone, Model: tinyModel,
		Data: WriteText(t, 3000), Name: "tiny", Seed: 7, Threads: 1,
		Pretrain: PretrainOptions{Steps: 12, Batch: 3, SlowOptions: SlowOptions{Rate: 3e-3,
			Warmup: 3, Dropout: .1, AttentionDropout: .1}},
		Meta:            MetaOptions{Chunk: 16},
		CheckpointEvery: 5,
	}
}

// TinyMeta returns options for a few steps of each phase: pretraining, meta and joint.
func TinyMeta(t *testing.T, scheme string) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
	o := TinyPretraining(t)
	o.Phases = []string{PhasePretrain, PhaseMeta, PhaseJoint}
	o.HoldOut = []string{"domain3"}
	o.Pretrain.Steps = 4
	o.Meta = MetaOptions{
		// There are few branches, because gorgonia is slow under the race detector.
		Scheme: scheme, Steps: 4, Chunk: 16, Branches: []string{"word_emb.*", "*.o_net.weight"},
		Online: OnlineOptions{Chunks: 2, Reset: .5, PieceMin: 40, PieceMax: 120},
		Window: WindowOptions{K: 3, GradientChunk: 24, Batch: 2, P: .3},
	}
	o.Joint = JointOptions{Steps: 4, SlowOptions: SlowOptions{Dropout: .1}}
	o.Valid, o.Validation = WriteText(t, 200), ValidationOptions{Every: 2, Bytes: 60}
	return o
}

// Pretrained pretrains a tiny model on three domains, and returns the path of the model's file.
func Pretrained(t *testing.T) string {
	o := TinyPretraining(t)
	o.Pretrain.Steps, o.HoldOut = 40, []string{"domain3"}
	o.Pretrain.Rate = 1e-2
	o.Out = filepath.Join(t.TempDir(), "static.safetensors")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	return o.Out
}

// Resumed runs a training that is interrupted after the given numbers of steps and resumed. Steps
// are counted over all phases.
func Resumed(t *testing.T, o Options, stops ...int) {
	t.Helper()
	for i, stop := range stops {
		o.Resume = i > 0
		ctx, cancel := context.WithCancel(context.Background())
		r, last, err := open(t.Context(), o)
		require.NoError(t, err)
		_, err = r.phases(&stopAt{Context: ctx, run: r, step: stop, cancel: cancel}, last)
		r.x.Close()
		var interrupted *InterruptedError
		require.ErrorAs(t, err, &interrupted)
		require.Equal(t, stop, r.steps())
		require.Equal(t, r.at.Step, interrupted.Step)
		require.ErrorIs(t, err, ErrInterrupted)
		require.ErrorIs(t, err, context.Canceled)
		require.FileExists(t, interrupted.Checkpoint)
		require.ErrorContains(t, err, fmt.Sprintf("in phase %s after step %d; resume from %s",
			r.at.Phase, r.at.Step, interrupted.Checkpoint))
	}
	o.Resume = len(stops) > 0
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
}

// stopAt is a context that ends when a run has made a number of steps.
type stopAt struct {
	context.Context
	run    *runner
	step   int
	cancel context.CancelFunc
}

func (c *stopAt) Err() error {
	if c.run.steps() >= c.step {
		c.cancel()
	}
	return c.Context.Err()
}

func (r *runner) steps() int {
	n := r.at.Step
	for _, done := range r.at.Done {
		n += done.Steps
	}
	return n
}

func requireSameResult(t *testing.T, o Options, stops ...int) {
	t.Helper()
	read := func(stops ...int) (model, last []byte) {
		dir := t.TempDir()
		o := o
		o.Dir, o.Out = filepath.Join(dir, "run"), filepath.Join(dir, "model.safetensors")
		Resumed(t, o, stops...)
		model, err := os.ReadFile(o.Out)
		require.NoError(t, err)
		last, err = os.ReadFile(filepath.Join(o.Dir, lastName))
		require.NoError(t, err)
		return model, last
	}
	model, last := read()
	model2, last2 := read(stops...)
	require.True(t, bytes.Equal(last, last2), "the checkpoints at the end differ")
	require.True(t, bytes.Equal(model, model2), "the models differ")
}
