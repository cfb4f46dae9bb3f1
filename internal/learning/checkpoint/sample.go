package checkpoint

import (
	_ "embed"
	"math"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// english is plain English: Lincoln's address at Gettysburg, 1863, in the public domain. Spaces
// surround its punctuation, as in the usual training texts of word models.
//
//go:embed sample.txt
var english []byte

// The sample is short, so that even large models score it in seconds. Both constants are numbers of
// tokens.
const (
	sampleTokens  = 512
	sampleSegment = 64
)

// Sample measures how well a model predicts a short English text.
type Sample struct {
	// Tokens counts the tokens of the text; Unknown counts those outside the vocabulary
	Tokens, Unknown int
	// Perplexity is the perplexity of the text without unknown words. A uniform guess has the
	// perplexity Vocab.
	Perplexity float64
	// Other is the perplexity with the softmax's cluster columns in reverse order; 0 for a model
	// with fewer than two clusters after the head.
	Other float64
	Vocab int
}

// Applies reports whether the model's vocabulary has at least half of the sample's words. Otherwise
// Try measures no perplexity.
func (s Sample) Applies() bool { return 2*s.Unknown <= s.Tokens }

// Sane reports whether the model predicts the sample better than a uniform guess.
func (s Sample) Sane() bool { return s.Perplexity < float64(s.Vocab) }

// Try measures how well a model predicts the sample text. Try may reorder the model's weights, so
// the caller must not use the model afterwards.
func Try(lm *txl.Model, tok tokenizer.Tokenizer, threads int) Sample {
	var tokens tokenizer.Tokens
	tok.Next(&tokens, &tokenizer.Pending{}, english, sampleTokens)
	s := Sample{Tokens: len(tokens.IDs), Vocab: tok.Vocab()}
	for _, id := range tokens.IDs {
		if id == tok.Unknown() {
			s.Unknown++
		}
	}
	if !s.Applies() {
		return s
	}
	x := txl.NewExec(threads)
	defer x.Close()
	inputs := append([]int32{tok.Start()}, tokens.IDs...)
	s.Perplexity = perplexity(x, lm, inputs, tok.Unknown())
	// The first cluster is the head. Only two or more further clusters have an order.
	if len(lm.Layout.Clusters()) > 2 {
		for _, name := range clusterTensors {
			i := lm.Layout.Index(name)
			copy(lm.Tensor(i), reverseRows(lm.Tensor(i), lm.Layout.Tensors[i].Shape[0]))
		}
		s.Other = perplexity(x, lm, inputs, tok.Unknown())
	}
	return s
}

// perplexity returns the perplexity of the tokens after the first one. Tokens equal to the
// parameter `unknown` do not count.
func perplexity(x *txl.Exec, lm *txl.Model, tokens []int32, unknown int32) float64 {
	// the rest of a longer memory would stay empty
	memLen := min(lm.Config.MemLen, sampleTokens)
	config := lm.Config.WithLengths(txl.Lengths{MemLen: &memLen})
	network := *lm
	network.Config = config
	segment, memory := txl.NewSegment(config, 1, sampleSegment), txl.NewMemory(config, 1)
	nll := make([]float32, sampleSegment)
	sum, count := 0., 0
	for at := 0; at < len(tokens)-1; at += sampleSegment {
		targets := tokens[at+1 : min(at+1+sampleSegment, len(tokens))]
		segment.Begin(x, &network, nil, memory)
		segment.Extend(x, tokens[at:at+len(targets)])
		segment.NLL(0, targets, nll)
		for i, id := range targets {
			if id != unknown {
				sum, count = sum+float64(nll[i]), count+1
			}
		}
		segment.Remember(memory)
	}
	return math.Exp(sum / float64(count))
}
