// Package container reads and writes whole .ulp files (FORMAT.md section 5): the directory of names, types and shapes at
// the front, the blobs, and the tail with lengths, fingerprints and checksums.
//
// Save and Load spread the work of many tensors, and of the chunks of large ones, over workers (package schedule); what
// they write does not depend on how many there are.
package container
