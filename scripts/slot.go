package scripts

import "strings"

// Slot returns the hash slot of a key in a Redis Cluster: the CRC16 of its hash tag, or of the whole key if it has none, modulo 16384
// (Redis Cluster specification, "Key distribution model").
func Slot(key string) uint16 {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021 // XMODEM
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
