package ulpack

import "github.com/ulpack/ulpack/go/internal/fault"

// Error is the type of every error of this package.
type Error = fault.Error

// Kind says what went wrong.
type Kind = fault.Kind

// The kinds of Error. The C ABI's result codes are their negatives.
const (
	KindArgument    = fault.KindArgument    // the call itself is wrong
	KindCorrupt     = fault.KindCorrupt     // the file breaks a MUST of the format, or a checksum does not hold
	KindTruncated   = fault.KindTruncated   // the file ends early
	KindReference   = fault.KindReference   // a reference is missing, or is not the one the file was made against
	KindUnsupported = fault.KindUnsupported // a version, dtype, plan or field value that this library does not know
	KindIO          = fault.KindIO          // reading or writing failed; Errno says why
	KindSpace       = fault.KindSpace       // an output buffer is too small
	KindCancelled   = fault.KindCancelled   // *Options.Cancel was set
	KindLimit       = fault.KindLimit       // a size is beyond the limits of the format or of this machine
	KindInternal    = fault.KindInternal    // a bug in this library
)
