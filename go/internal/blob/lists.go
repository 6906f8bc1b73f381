package blob

import "github.com/ulpack/ulpack/go/internal/fault"

// Limits of the lists in side strings, one entry a row or column (FORMAT.md section 14).
const (
	maxList   = 1 << 24
	listBase  = 65536 // and at most listBase + listRatio for each byte of the side string
	listRatio = 4096
)

// checkList checks the length of a list before anything is allocated for it.
func checkList(entries uint64, sideBytes int) error {
	if entries > maxList || entries > listBase+listRatio*uint64(sideBytes) {
		return fault.Limit("a list of %d rows in %d bytes", entries, sideBytes)
	}
	return nil
}

// rowLength checks that rows of rho lane values divide a number of lane values, and returns the number of rows.
func rowLength(rho, lanes uint64) (rows uint64, err error) {
	if rho == 0 || lanes%rho != 0 {
		return 0, fault.Corrupt("rows of %d in %d lane values", rho, lanes)
	}
	return lanes / rho, nil
}
