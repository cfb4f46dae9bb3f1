package train

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func TestRunKeepsTextBack(t *testing.T) {
	o := TinyPretraining(t)
	o.Valid = ""
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.NotNil(t, report.Phases[0].Best)

	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	require.True(t, r.recipe.KeptBack)
	all, err := corpus.Load(t.Context(), o.Data, 0)
	require.NoError(t, err)
	require.Equal(t, all.Bytes(), r.recipe.Data.Bytes+r.recipe.Valid.Bytes)

	o.Valid = ValidNone
	report, err = Run(context.Background(), o)
	require.NoError(t, err)
	require.Nil(t, report.Phases[0].Best)
}

func TestDefaultStepsFollowFromTheText(t *testing.T) {
	// A step of pretraining has 16*128 tokens, an online step 8*64, and a window step 8*(4*128 +
	// 512).
	for bytes, want := range map[int][3]int{
		1000:      {512, 512, 128},
		1 << 20:   {1536, 2048, 384},
		100 << 20: {10240, 2048, 2560},
	} {
		for scheme, k := range map[string]int{SchemeOnline: 1, SchemeWindow: 2} {
			o := Options{Meta: MetaOptions{Scheme: scheme}}.withDefaults()
			c := tinyModel
			c.SegLen = 128
			o.complete(&model.Model{LM: &txl.Model{Config: c}, Tokenizer: tokenizer.Bytes{}}, bytes)
			require.Equal(t, []int{want[0], want[k], want[k]}, []int{o.Pretrain.Steps, o.Meta.Steps,
				o.Joint.Steps}, fmt.Sprint(bytes, scheme))
			require.Equal(t, want[0]/20, o.Pretrain.Warmup)
		}
	}
}
