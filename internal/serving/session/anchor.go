package session

import "hash/fnv"

// An editor sends the text before the cursor, and cuts off the beginning of a long text. The cut
// moves with every key press. No state is cached for a text with a new beginning. So a long prompt
// that has a suffix is read from a line that stays the same while the cut moves.
const (
	anchorBytes = 4096 // shorter prompts are read from their beginning
	anchorLine  = 64   // bytes of a line that are hashed
)

// anchored drops the front of a prompt, at most a quarter of it. The prompt then begins with the
// line in that quarter whose hash is the smallest (winnowing; Schleimer, Wilkerson and Aiken,
// 2003). The choice depends on the prompt alone.
func anchored(prompt []byte) []byte {
	if len(prompt) <= anchorBytes {
		return prompt
	}
	at, least := 0, ^uint64(0)
	for i := 1; i <= len(prompt)/4; i++ {
		if prompt[i-1] != '\n' {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write(prompt[i : i+anchorLine])
		if sum := h.Sum64(); sum < least {
			at, least = i, sum
		}
	}
	return prompt[at:]
}
