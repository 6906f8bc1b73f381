// Package schedule runs an ordered stream of steps on a bounded number of workers.
//
// Steps start in the order of the stream, so a step may wait for any step before it. What a step leaves behind is picked
// up by its Emit function, which runs on the calling goroutine in stream order: output comes out in order whatever the
// number of workers. A worker that panics, or touches memory that is not there, ends the run with an error of kind
// internal; the error of the earliest step wins.
package schedule
