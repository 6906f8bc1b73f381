package rans

import "github.com/ulpack/ulpack/go/internal/testkit"

// The oracle follows FORMAT.md sections 11 and 23 with plain divisions.

func oracleEncode(ix []uint16, contextMap []uint8, freq [][]uint16, tableLog, lanes int) (states []uint32, words []byte) {
	states = make([]uint32, lanes)
	for i := range states {
		states[i] = 1 << 15
	}
	var emitted []uint16
	for i := len(ix) - 1; i >= 0; i-- {
		row := freq[contextMap[ix[i]>>8]]
		token := int(ix[i] & 255)
		cum := uint32(0)
		for _, f := range row[:token] {
			cum += uint32(f)
		}
		f, x := uint32(row[token]), states[i%lanes]
		if x >= f<<(31-tableLog) {
			emitted = append(emitted, uint16(x))
			x >>= 16
		}
		states[i%lanes] = x/f<<tableLog + x%f + cum
	}
	for i := len(emitted) - 1; i >= 0; i-- {
		words = append(words, byte(emitted[i]), byte(emitted[i]>>8))
	}
	return states, words
}

func oracleDecode(clusters []uint8, freq [][]uint16, tableLog, lanes int, states []uint32, words []byte) (tokens []uint8, end []uint32, left []byte, ok bool) {
	end = append([]uint32(nil), states...)
	for i, cluster := range clusters {
		x := end[i%lanes]
		slot := x % (1 << tableLog)
		cum, token := uint32(0), 0
		for slot >= cum+uint32(freq[cluster][token]) {
			cum += uint32(freq[cluster][token])
			token++
		}
		x = uint32(freq[cluster][token])*(x>>tableLog) + slot - cum
		if x < 1<<15 {
			if len(words) == 0 {
				return nil, nil, nil, false
			}
			x = x<<16 | uint32(words[0]) | uint32(words[1])<<8
			words = words[2:]
		}
		end[i%lanes] = x
		tokens = append(tokens, uint8(token))
	}
	return tokens, end, words, true
}

// tables returns frequencies for clusters of a alphabet: skewed, flat, and the single token with its dummy partner.
func tables(clusters, alphabet, tableLog int, seed uint64) [][]uint16 {
	rng := testkit.Rand(seed)
	m := 1 << tableLog
	freq := make([][]uint16, clusters)
	for k := range freq {
		row := make([]uint16, alphabet)
		freq[k] = row
		switch k % 4 {
		case 0: // geometric, with gaps
			left, s := m, rng.IntN(alphabet)
			for range 4 * alphabet {
				f := min(left, max(1, left*rng.IntN(8)/10))
				row[s] += uint16(f)
				if left -= f; left == 0 {
					break
				}
				s = (s + 1 + rng.IntN(3)) % alphabet
			}
			row[s] += uint16(left)
		case 1: // flat
			for s := range row {
				row[s] = uint16(m / alphabet)
			}
			row[0] += uint16(m - m/alphabet*alphabet)
		case 2: // one token
			s := rng.IntN(alphabet)
			row[s] = uint16(m - 1)
			if s == 0 {
				row[1] = 1
			} else {
				row[0] = 1
			}
			continue
		case 3: // all rare but one
			for s := range row {
				row[s] = 1
			}
			row[alphabet-1] += uint16(m - alphabet)
		}
		for s, f := range row { // no table has a single token
			if int(f) == m {
				row[s]--
				row[(s+1)%alphabet]++
			}
		}
	}
	return freq
}

// symbols draws n symbols from the tables, with contexts at random; rare tokens come more often than they should.
func symbols(n int, contextMap []uint8, freq [][]uint16, tableLog int, seed uint64) []uint16 {
	rng := testkit.Rand(seed)
	ix := make([]uint16, n)
	for i := range ix {
		c := rng.IntN(len(contextMap))
		row := freq[contextMap[c]]
		slot, token := rng.IntN(1<<tableLog), 0
		for slot >= int(row[token]) {
			slot -= int(row[token])
			token++
		}
		if rng.IntN(8) == 0 {
			for token = rng.IntN(len(row)); row[token] == 0; {
				token = (token + 1) % len(row)
			}
		}
		ix[i] = uint16(c<<8 | token)
	}
	return ix
}
