// Package ulpack stores the tensors of a training run's checkpoints losslessly, each alone or as a difference from a
// reference tensor that the reader also has. The format is that of go/FORMAT.md.
//
// The data path of a tensor, with the names used throughout:
//
//	target, reference        the bits to store, and those of the tensor they are stored against
//	key                      phi(u), an integer that orders all bit patterns as their values
//	residual z               zigzag of key(target) - key(reference): how many representable values lie between them
//	raw plane, token, tail   the low bits of z as they are; a class of the rest, entropy coded; the bits within the class
//	context, cluster         the exponent (or byte) of the reference; contexts that share a frequency table
//	lane, word, state        of the interleaved rANS coder that writes the tokens
//	chunk                    2^18 elements that decode independently
//	blob                     a tensor in the file: header, chunks, hashes
//	plan                     stored, identical, constant, coded, rows or narrow: whichever is smallest
//	program                  what predicts a tensor from its reference or other tensors: a copy, a step of an optimizer
//	slot, role               a tensor that a blob needs: the own reference, another tensor, the reference of another one
//	row class                a group of rows (or columns) that changed alike and share frequency tables
//	sparse chunk             one that codes where its few changed values are
//	family                   tensors that need each other and decode together, chunk by chunk
//
// Save writes a file, IndexJSON describes one, Load reads tensors or ranges of them. Every error is an *Error with a Kind.
// Bytes depend on the tensors, their references and names only: not on the number of threads, nor on the processor.
package ulpack
