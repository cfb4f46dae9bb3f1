package txl

// cluster is a range of the vocabulary whose embeddings have one width. The first cluster, the
// head, has the most frequent tokens; the others are the tails. A plain model has only a head.
type cluster struct {
	lo, hi  int // tokens lo to hi-1
	width   int // width of an embedding, E_i
	emb     int // tensor of the embeddings, [*,E_i]
	out     int // tensor of the softmax's weights, [*,E_i]: emb if tied
	bias    int // tensor of the softmax's bias
	first   int // the first token's position in emb, out and bias
	proj    int // tensor that projects embeddings to hidden states [D,E_i], or none
	outProj int // tensor that projects hidden states back [D,E_i], or none
}

// none is the index of a tensor that does not exist in the layout.
const none = -1

// size returns the number of the cluster's tokens.
func (k *cluster) size() int { return k.hi - k.lo }

// vocabulary is the part of a layout for tokens: the embeddings, and the softmax over them.
//
// Adaptive input and adaptive softmax (Grave et al. 2017, Baevski and Auli 2019) divide the
// vocabulary into clusters. A token's input is its embedding, projected to the width of the model.
// The probability of a head token is the softmax over the head. The head also has a column for each
// tail, with separate weights. The probability of a tail token is the probability of the tail's
// column, times the softmax over the tail. The tails' columns are in reverse order: the last column
// belongs to the first tail.
type vocabulary struct {
	clusters                   []cluster
	clusterWeight, clusterBias int // tensors of the tails' columns; none without tails
}

// tails returns the number of tails: all clusters except the head.
func (v *vocabulary) tails() int { return len(v.clusters) - 1 }

// headWidth returns the number of the head's columns: its tokens, then the tails.
func (v *vocabulary) headWidth() int { return v.clusters[0].size() + v.tails() }

// clusterOf returns the number of a token's cluster.
func (v *vocabulary) clusterOf(token int32) int {
	i := 0
	for int(token) >= v.clusters[i].hi {
		i++
	}
	return i
}

// headColumn returns the column of the head that a token's probability needs.
func (v *vocabulary) headColumn(token int32) int {
	if i := v.clusterOf(token); i > 0 {
		return v.headWidth() - i
	}
	return int(token)
}

// members appends the positions of the tokens that belong to the cluster to dst.
func (k *cluster) members(dst []int32, tokens []int32) []int32 {
	for at, token := range tokens {
		if int(token) >= k.lo && int(token) < k.hi {
			dst = append(dst, int32(at))
		}
	}
	return dst
}

// part returns the cluster's part of a gradient with width elements for each token, or nil for a
// nil gradient.
func (k *cluster) part(g []float32, width int) []float32 {
	if g == nil {
		return nil
	}
	return g[k.first*width : (k.first+k.size())*width]
}

// embeddingIn returns a token's embedding in the cluster's part of a table.
func (k *cluster) embeddingIn(table []float32, token int32) []float32 {
	at := (int(token) - k.lo) * k.width
	return table[at : at+k.width]
}
