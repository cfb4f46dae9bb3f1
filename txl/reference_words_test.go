package txl

import (
	"fmt"
	"math"
)

// words is a cluster of the vocabulary: tokens lo to hi-1, with embeddings and softmax weights
// [hi-lo,width], biases, and projections [D,width]. Projections are nil if the cluster has the
// width of the model.
type words struct {
	lo, hi, width                 int
	embed, softmax, bias, in, out []float64
}

// words returns cluster i, from tensors named as in the reference implementation of Transformer-XL.
// Without separate tables, the clusters are ranges of rows in one table, and all inputs share one
// projection.
func (r *reference) words(i int) words {
	ends := append(append([]int{0}, r.c.Cutoffs...), r.c.Vocab)
	k := words{lo: ends[i], hi: ends[i+1], width: r.c.DModel}
	if r.c.DEmbed > 0 {
		k.width = r.c.DEmbed
	}
	tied := i < len(r.c.TieProjs) && r.c.TieProjs[i]
	tables := []string{"word_emb.emb_layers.%d.weight", "word_emb.emb_layers.%d.weight"}
	if r.c.UntieSoftmax {
		tables[1] = "crit.out_layers.%d.weight"
	}
	input := 0
	if r.c.DivVal > 1 || r.c.ClusterTables {
		k.width /= int(math.Pow(float64(max(1, r.c.DivVal)), float64(i)))
		k.embed = r.tensor(fmt.Sprintf(tables[0], i))
		k.softmax = r.tensor(fmt.Sprintf(tables[1], i))
		k.bias = r.tensor(fmt.Sprintf("crit.out_layers.%d.bias", i))
		input = i
	} else {
		k.embed = r.tensor(fmt.Sprintf(tables[0], 0))[k.lo*k.width : k.hi*k.width]
		k.softmax = r.tensor(fmt.Sprintf(tables[1], 0))[k.lo*k.width : k.hi*k.width]
		k.bias = r.tensor("crit.out_layers.0.bias")[k.lo:k.hi]
		if k.width == r.c.DModel {
			return k
		}
	}
	k.in = r.tensor(fmt.Sprintf("word_emb.emb_projs.%d", input))
	k.out = k.in
	if !tied {
		k.out = r.tensor(fmt.Sprintf("crit.out_projs.%d", i))
	}
	return k
}

func (r *reference) input(token int) []float64 {
	i := 0
	for i < len(r.c.Cutoffs) && token >= r.c.Cutoffs[i] {
		i++
	}
	k := r.words(i)
	narrow := k.embed[(token-k.lo)*k.width : (token-k.lo+1)*k.width]
	wide := narrow
	if k.in != nil {
		wide = linear([][]float64{narrow}, k.in, nil, r.c.DModel)[0]
	}
	x := make([]float64, r.c.DModel)
	for j := range x {
		x[j] = wide[j] * math.Sqrt(float64(r.c.DModel))
	}
	return x
}

// lower returns Pᵀ h, where P is the cluster's output projection.
func (k words) lower(h []float64) []float64 {
	if k.out == nil {
		return h
	}
	low := make([]float64, k.width)
	for j := range low {
		for d := range h {
			low[j] += h[d] * k.out[d*k.width+j]
		}
	}
	return low
}

func (r *reference) distribution(h []float64) (logp []float64) {
	head, tails := r.words(0), len(r.c.Cutoffs)
	table, bias := head.softmax, head.bias
	if tails > 0 {
		table = append(append([]float64{}, table...), r.tensor("crit.cluster_weight")...)
		bias = append(append([]float64{}, bias...), r.tensor("crit.cluster_bias")...)
	}
	own := head.hi
	of := logSoftmax(linear([][]float64{head.lower(h)}, table, bias, own+tails)[0])
	logp = append(logp, of[:own]...)
	for i := 1; i <= tails; i++ {
		k := r.words(i)
		logits := linear([][]float64{k.lower(h)}, k.softmax, k.bias, k.hi-k.lo)[0]
		for _, v := range logSoftmax(logits) {
			logp = append(logp, of[own+tails-i]+v)
		}
	}
	return logp
}

func logSoftmax(logits []float64) []float64 {
	var sum float64
	for _, v := range logits {
		sum += math.Exp(v)
	}
	out := make([]float64, len(logits))
	for j, v := range logits {
		out[j] = v - math.Log(sum)
	}
	return out
}
