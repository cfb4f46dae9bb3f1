package session

import "hash/fnv"

// Editors send the text before the cursor, and cut off the beginning of a long text. The cut moves
// with every key press, so no cached state would match. Therefore a long prompt with a suffix is
// read from a line that stays the same while the cut moves.
const (
	anchorBytes = 4096 // shorter prompts are read from their beginning
	anchorLine  = 64   // number of bytes hashed at the beginning of a line
)

// anchored drops at most the first quarter of a prompt. The rest begins with the line in this
// quarter that has the smallest hash (winnowing; Schleimer, Wilkerson and Aiken, 2003).
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
