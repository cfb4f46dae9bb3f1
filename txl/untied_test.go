package txl

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// untiedOf returns a model whose softmax has separate tables. It copies the fast weights of a tied
// table to both tables that replace it.
func untiedOf(m *Model, fast Fast) (*Model, Fast) {
	untied := m.UntieSoftmax()
	more := make(Fast, len(untied.Layout.Tensors))
	for i, tensor := range untied.Layout.Tensors {
		more[i] = fast[m.Layout.Index(tiedName(tensor.Name))]
	}
	return untied, more
}

func tiedName(name string) string {
	if number, ok := strings.CutPrefix(name, "crit.out_layers."); ok &&
		strings.HasSuffix(name, "weight") {
		return "word_emb.emb_layers." + number
	}
	return name
}

func scored(t *testing.T, m *Model, fast Fast) (values []float32, grads Grads) {
	c, x := m.Config, newExec(t, 2)
	seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
	ids := randomTokens(2*c.SegLen+1, c.Vocab, 21)
	grads = m.Layout.Slices(make([]float32, m.Layout.Size))
	logp := make([]float32, c.Vocab)
	for at := 0; at < 2*c.SegLen; at += c.SegLen {
		nll := make([]float32, c.SegLen)
		seg.Begin(x, m, fast, mem)
		seg.Extend(x, ids[at:at+c.SegLen])
		seg.NLL(0, ids[at+1:at+1+c.SegLen], nll)
		seg.LogProbs(c.SegLen-1, 0, logp)
		seg.Backward(x, ids[at+1:at+1+c.SegLen], grads)
		seg.Remember(mem)
		values = append(append(values, nll...), logp...)
	}
	for _, layer := range mem.Layers {
		values = append(values, layer...)
	}
	return values, grads
}

// A model with copied tables must compute the same bits. The gradients of the two copies must sum
// to the gradient of the tied table.
func TestUntiedTablesComputeTheSame(t *testing.T) {
	for name, c := range shapes {
		if c.UntieSoftmax {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 23)
			untied, more := untiedOf(m, fast)
			require.NoError(t, untied.Config.Validate())
			values, grads := scored(t, m, fast)
			same, parts := scored(t, untied, more)
			require.Equal(t, values, same)
			sums := m.Layout.Slices(make([]float32, m.Layout.Size))
			for i, tensor := range untied.Layout.Tensors {
				sum := sums[m.Layout.Index(tiedName(tensor.Name))]
				for j, g := range parts[i] {
					sum[j] += g
				}
			}
			for i, tensor := range m.Layout.Tensors {
				largest := 0.0
				for _, g := range grads[i] {
					largest = max(largest, math.Abs(float64(g)))
				}
				require.InDeltaSlice(t, grads[i], sums[i], 1e-6*largest+1e-9, tensor.Name)
			}
			require.Same(t, untied, untied.UntieSoftmax())
		})
	}
}

func TestFastWeightsOfTheSoftmaxLeaveTheInputAlone(t *testing.T) {
	for name, c := range shapes {
		if !c.UntieSoftmax {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 25)
			ids := randomTokens(c.SegLen+1, c.Vocab, 26)
			seg, x := NewSegment(c, 1, c.SegLen), newExec(t, 1)
			run := func(fast Fast) (hidden, nll []float32) {
				nll = make([]float32, c.SegLen)
				seg.Begin(x, m, fast, NewMemory(c, 1))
				seg.Extend(x, ids[:c.SegLen])
				seg.NLL(0, ids[1:], nll)
				return append(hidden, seg.Hidden()...), nll
			}
			tables, grads := make(Fast, len(fast)), make(Grads, len(fast))
			for i, tensor := range m.Layout.Tensors {
				if tiedName(tensor.Name) != tensor.Name {
					tables[i], grads[i] = fast[i], make([]float32, tensor.Size)
				}
			}
			hidden, nll := run(nil)
			same, other := run(tables)
			require.Equal(t, hidden, same)
			require.NotEqual(t, nll, other)
			require.Equal(t, 2*c.NLayer, seg.lowestHalf(grads), "backward ends above the layers")
		})
	}
}
