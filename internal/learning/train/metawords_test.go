package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/tokenizer"
)

// tinyWordsMeta returns options for all phases of a tiny model of words. The biases of the softmax
// have fast weights, and so has the layer below the softmax.
func tinyWordsMeta(t *testing.T, scheme string) Options {
	o := TinyMeta(t, scheme)
	o.Tokenizer.Kind, o.Model = tokenizer.KindWords, tinyClusters
	o.Meta.Branches = []string{"crit.*.bias", "crit.cluster_bias", "*.CoreNet.3.weight"}
	return o
}

// pretrainedWords pretrains a tiny model of words on the first three domains, and returns the path
// of the model's file. The model does not know the words of the last domain.
func pretrainedWords(t *testing.T) string {
	o := TinyPretraining(t)
	o.Tokenizer.Kind, o.Model, o.HoldOut = tokenizer.KindWords, tinyClusters, []string{"domain3"}
	o.Tokenizer.MinCount = 1
	o.Pretrain.Steps, o.Pretrain.Rate = 40, 1e-2
	o.Out = filepath.Join(t.TempDir(), "static.safetensors.zst")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	return o.Out
}

func TestPhasesOnWordsResumeToTheSameBits(t *testing.T) {
	for _, scheme := range []string{SchemeOnline, SchemeWindow} {
		t.Run(scheme, func(t *testing.T) {
			requireSameResult(t, tinyWordsMeta(t, scheme), 2, 4, 7, 9, 11)
		})
	}
}

var goldenWordRuns = map[string]string{
	SchemeOnline: "cf399e1e963876c0b458300443b127a0afcc513d2c944746a698bde54972a82a",
	SchemeWindow: "d965010be6a84e6438af4c8f6359a0f9fe599e7a9d5bcf408fa286a74dcd3f9c",
}

func TestRunOnWordsHasUnchangedBits(t *testing.T) {
	requireGoldenRuns(t, goldenWordRuns, tinyWordsMeta)
}

func TestThreadsDoNotMatterToMetaTrainingOnWords(t *testing.T) {
	for _, scheme := range []string{SchemeOnline, SchemeWindow} {
		var first []byte
		for _, threads := range []int{1, 3} {
			o := tinyWordsMeta(t, scheme)
			o.Data = WriteText(t, 3000)
			o.Threads, o.Out = threads, filepath.Join(t.TempDir(), "m.safetensors")
			_, err := Run(context.Background(), o)
			require.NoError(t, err)
			file, err := os.ReadFile(o.Out)
			require.NoError(t, err)
			if first == nil {
				first = file
			}
			require.True(t, bytes.Equal(first, file), "%s with %d threads", scheme, threads)
		}
	}
}

func TestMetaTrainingOnWordsPays(t *testing.T) {
	o := tinyWordsMeta(t, SchemeOnline)
	o.Tokenizer, o.Model.NLayer = TokenizerOptions{}, 0
	o.Phases, o.Init, o.HoldOut = []string{PhaseMeta}, pretrainedWords(t), nil
	o.Meta.Branches, o.Meta.Steps = nil, 40
	o.Meta.Online = OnlineOptions{PieceMin: 400, PieceMax: 800}
	o.Meta.Schedule = optim.ScheduleCosine
	o.Validation = ValidationOptions{Bytes: 3000}
	o.Valid = WriteText(t, 3000)
	o.Out = filepath.Join(t.TempDir(), "model.safetensors.zst")
	told := &recorder{}
	o.Observer = told
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	best := report.Phases[0].Best
	require.Less(t, *best.Adaptive, best.Static-.05, best)
	require.Positive(t, best.Words.Unknown)
	require.Contains(t, told.notes(), "vocabulary: 13 symbols; the text is ")
	percent := 100 * (math.Exp2(*best.Adaptive-best.Static) - 1)
	require.Contains(t, report.String(),
		fmt.Sprintf("valid perplexity static %.2f, adaptive %.2f, %+.2f %% (",
			math.Exp2(best.Static), math.Exp2(*best.Adaptive), percent))

	before, err := model.Load(o.Init)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, before.LM.W, after.LM.W)
	require.Equal(t, before.Tokenizer, after.Tokenizer)
	require.Equal(t, wordP, after.Learner.Settings.P)
	var names []string
	for _, b := range after.Learner.Branches {
		names = append(names, b.Name)
	}
	require.Equal(t, []string{
		"layers.0.pos_ff.CoreNet.0.weight", "layers.0.pos_ff.CoreNet.0.bias",
		"layers.0.pos_ff.CoreNet.3.weight", "layers.0.pos_ff.CoreNet.3.bias",
		"crit.cluster_weight", "crit.cluster_bias",
		"crit.out_layers.0.bias", "crit.out_projs.0", "crit.out_layers.1.bias",
		"crit.out_layers.2.bias",
	}, names, "the branches by default")
	var c card
	require.NoError(t, json.Unmarshal(after.Card, &c))
	require.Equal(t, before.Hash(), c.Recipe.Init)
	require.NotEmpty(t, c.Recipe.Words.Fingerprint)
}

func TestRunsFromAModelOfWordsResume(t *testing.T) {
	o := tinyWordsMeta(t, SchemeOnline)
	o.Tokenizer, o.Model.NLayer = TokenizerOptions{}, 0
	o.Init = pretrainedWords(t)
	requireSameResult(t, o, 2, 5, 9)
}

func TestTokensAreThoseOfStartingModel(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init, o.Model.NLayer = []string{PhaseMeta}, pretrainedWords(t), 0
	o.Tokenizer.Kind = tokenizer.KindBytes
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err,
		"Tokenizer.Kind is bytes, expected no value: the initial model")
	o.Tokenizer = TokenizerOptions{Vocabulary: "vocab.txt"}
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err,
		"Tokenizer.Kind is words, expected no value: the initial model")
}
