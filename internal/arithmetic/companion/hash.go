package companion

func hash(a, b uint32) uint32 {
	h := a*0x2f0b4c47 + b*0x6c8e9cf5 + 0x01234567
	h ^= h >> 13
	h *= 0x85ebca6b
	return h ^ h>>16
}
