package sidecoder

import (
	"encoding/binary"
	"errors"
	"sync"
)

var errTextLength = errors.New("text length out of range")

const (
	// MaxText is the longest text that EncodeText and DecodeText handle (section 5.1 allows a directory no more).
	MaxText = 1 << 28

	textHashBits = 16
	textOrder    = 4 // bytes that select a position to predict from

	// First allocation of DecodeText; growth is paid for by bytes already decoded.
	textFirstGuess = 1 << 16
)

// textModel predicts a byte from the byte before it and from where the last four bytes were seen before (section 5.2).
type textModel struct {
	match    [16]Context
	trees    [256][256]Context
	position [1 << textHashBits]uint32
	ptr      int
	len      int
}

var textModels = sync.Pool{New: func() any { return new(textModel) }}

func newTextModel() *textModel {
	m := textModels.Get().(*textModel)
	*m = textModel{}
	return m
}

// predict prepares byte i of text, whose bytes before i are known, and reports whether text[m.ptr] is a guess for it.
func (m *textModel) predict(text []byte, i int) bool {
	if i >= textOrder {
		h := (binary.LittleEndian.Uint32(text[i-textOrder:i]) * 2654435761) >> (32 - textHashBits)
		cand := int(m.position[h])
		m.position[h] = uint32(i)
		if m.len == 0 && cand > 0 {
			m.ptr = cand
			m.len = 1
		}
	}
	return m.ptr > 0
}

// context returns the context that says whether the guess holds.
func (m *textModel) context() *Context { return &m.match[min(m.len, len(m.match)-1)] }

// follow moves the guess on.
func (m *textModel) follow(hit bool) {
	m.ptr++
	if hit {
		m.len++
	} else {
		m.len = 0
	}
}

// tree returns the contexts of a byte that follows the byte before.
func (m *textModel) tree(text []byte, i int) []Context {
	if i == 0 {
		return m.trees[0][:]
	}
	return m.trees[text[i-1]][:]
}

// EncodeText codes plain with the text coder of FORMAT.md section 5.2; plain must not be longer than MaxText.
func EncodeText(plain []byte) []byte {
	m := newTextModel()
	defer textModels.Put(m)
	var e Encoder
	e.Reset(make([]byte, 0, len(plain)/4+16))
	for i, b := range plain {
		if m.predict(plain, i) {
			hit := plain[m.ptr] == b
			if hit {
				e.Bit(m.context(), 1)
			} else {
				e.Bit(m.context(), 0)
			}
			m.follow(hit)
			if hit {
				continue
			}
		}
		e.Tree(m.tree(plain, i), 8, uint32(b))
	}
	return e.Finish()
}

// DecodeText decodes plainLen bytes. Memory grows with what has been decoded, so the caller only has to bound plainLen by
// the ratio of section 5.1. It returns an error when plainLen is negative or above MaxText, or when coded is longer than
// what decoding consumes.
func DecodeText(coded []byte, plainLen int) ([]byte, error) {
	if plainLen < 0 || plainLen > MaxText {
		return nil, errTextLength
	}
	m := newTextModel()
	defer textModels.Put(m)
	var d Decoder
	d.Reset(coded)
	text := make([]byte, 0, min(plainLen, textFirstGuess))
	for i := range plainLen {
		if m.predict(text, i) {
			hit := d.Bit(m.context()) != 0
			if hit {
				text = append(text, text[m.ptr])
			}
			m.follow(hit)
			if hit {
				continue
			}
		}
		text = append(text, byte(d.Tree(m.tree(text, i), 8)))
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return text, nil
}
