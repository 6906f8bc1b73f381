// Package sparse codes chunks of which little has changed (FORMAT.md section 18): where a lane value differs from what
// predicts it, as gaps between changed lane values of the same cluster, and by how much. What a decoder knows of a cluster,
// its size in the chunk and how often its values change, goes into the code of its gaps.
//
// Read this first. A changed lane value has a z that is not 0. Ranks count the lane values of one cluster from the start of
// the chunk; a gap is the number of lane values of the cluster between two changed ones. Ranks are turned into places and
// back by counting the lane values of a cluster, 64 at a time.
package sparse
