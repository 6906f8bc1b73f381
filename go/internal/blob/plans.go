package blob

// Plans of FORMAT.md section 6: on the wire.
const (
	PlanStored    = 0
	PlanIdentical = 1
	PlanConstant  = 2
	PlanCoded     = 3
)

// Predictors, kinds of tables and kinds of chunk bodies of sections 7 and 11: on the wire.
const (
	predictNothing   = 0
	predictReference = 1

	mapHybrid  = 0
	mapLeading = 1
	mapDirect  = 2

	tablesOwn        = 0
	tablesParametric = 1

	contextNone     = 0
	contextExponent = 1
	contextByte     = 2

	bodyCoded     = 0
	bodyStored    = 1
	bodyUnchanged = 2
)

// PlanName names a plan for display.
func PlanName(plan uint8) string {
	switch plan {
	case PlanStored:
		return "stored"
	case PlanIdentical:
		return "identical"
	case PlanConstant:
		return "constant"
	case PlanCoded:
		return "coded"
	}
	return "reserved"
}
