package container

// The file of FORMAT.md section 5: on the wire.
const (
	magic       = "\x89ULP\r\n\x1a\n"
	endMagic    = "ULPEND\r\n"
	MajorFormat = 1
	MinorFormat = 1

	prefixLen = 24 // magic, version, lengths and checksum of the directory
	footerLen = 32

	maxDirectory  = 1 << 28 // bytes of the plain directory
	ratioBase     = 65536   // and at most ratioBase + ratioFactor * coded bytes
	ratioFactor   = 16384
	MaxTensors    = 1 << 24
	maxDTypeName  = 4096
	maxItemSize   = 1 << 20
	minTailEntry  = 11 // plan, blob length, fingerprint, number of roles
	smallChecksum = 4096
	maxDepth      = 4 // of values that are decoded from values
)

// EncoderVersion is the version of the canonical encoder (FORMAT.md part II) that this package implements.
const EncoderVersion = 2
