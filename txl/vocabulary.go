package txl

// cluster is a range of the vocabulary whose embeddings have one width. The first cluster, called
// the head, has the most frequent tokens. The other clusters are called tails. A plain model has
// only a head.
type cluster struct {
	lo, hi  int // tokens lo to hi-1
	width   int
	emb     int // tensor of the embeddings [*,width]
	out     int // tensor of the softmax's weights [*,width]; if tied, emb
	bias    int
	first   int // row of the cluster's first token in emb, out and bias
	proj    int // tensor that projects embeddings to hidden states [D,width], or none
	outProj int // tensor that projects hidden states to the cluster's width [D,width], or none
}

// none is the index of a tensor that does not exist in the layout.
const none = -1

func (k *cluster) size() int { return k.hi - k.lo }

// vocabulary is the part of a layout for tokens: the embeddings, and the softmax over the
// vocabulary.
//
// Adaptive input and adaptive softmax (Grave et al. 2017, Baevski and Auli 2019) divide the
// vocabulary into clusters. A token's input is its embedding, projected to the width of the model.
// The head is a softmax over the head's tokens and one additional column for each tail. The
// probability of a head token is its probability in the head. The probability of a tail token is a
// product: the probability of the tail's column, times the token's probability within the tail. The
// tails' columns are in reverse order: the last column belongs to the first tail.
type vocabulary struct {
	clusters []cluster
	// tensors of the head's columns for tails; none without tails
	clusterWeight, clusterBias int
}

func (v *vocabulary) tails() int { return len(v.clusters) - 1 }

// headWidth returns the number of the head's columns: one for each of its tokens, then one for each
// tail.
func (v *vocabulary) headWidth() int { return v.clusters[0].size() + v.tails() }

func (v *vocabulary) clusterOf(token int32) int {
	i := 0
	for int(token) >= v.clusters[i].hi {
		i++
	}
	return i
}

// headColumn returns the head's column for a token: the token itself, or the tail that contains it.
func (v *vocabulary) headColumn(token int32) int {
	if i := v.clusterOf(token); i > 0 {
		return v.headWidth() - i
	}
	return int(token)
}

// members appends to dst the positions of those tokens that belong to the cluster.
func (k *cluster) members(dst []int32, tokens []int32) []int32 {
	for at, token := range tokens {
		if int(token) >= k.lo && int(token) < k.hi {
			dst = append(dst, int32(at))
		}
	}
	return dst
}

// part returns the cluster's part of the gradient g, which has width elements for each token. It
// returns nil if g is nil.
func (k *cluster) part(g []float32, width int) []float32 {
	if g == nil {
		return nil
	}
	return g[k.first*width : (k.first+k.size())*width]
}

// embeddingIn returns a token's embedding. table contains only the cluster's rows.
func (k *cluster) embeddingIn(table []float32, token int32) []float32 {
	at := (int(token) - k.lo) * k.width
	return table[at : at+k.width]
}
