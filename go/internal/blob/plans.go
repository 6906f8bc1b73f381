package blob

// Plans of FORMAT.md section 6: on the wire.
const (
	PlanStored    = 0
	PlanIdentical = 1
	PlanConstant  = 2
	PlanCoded     = 3
	PlanRows      = 4 // coded, but for rows that a program predicts exactly
	PlanNarrow    = 5 // coded without low bits that are 0 everywhere
)

// Predictors, kinds of tables and kinds of chunk bodies of sections 7 and 11: on the wire.
const (
	predictNothing   = 0
	predictReference = 1
	predictProgram   = 2

	mapHybrid  = 0
	mapLeading = 1
	mapDirect  = 2

	tablesOwn        = 0
	tablesParametric = 1

	contextNone     = 0
	contextExponent = 1
	contextByte     = 2
	contextClass    = 3
	contextBeside   = 4

	bodyCoded     = 0
	bodyStored    = 1
	bodyUnchanged = 2
	bodySparse    = 3
)

// exponentContexts is the number of contexts of an exponent field (section 9).
const exponentContexts = 32

// Roles of the tensors that a blob needs (section 5.3): on the wire.
const (
	RoleReference      = 0 // the tensor's own reference
	RoleValue          = 1 // the value of another tensor of the file
	RoleOtherReference = 2 // the reference of another tensor of the file
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
	case PlanRows:
		return "rows"
	case PlanNarrow:
		return "narrow"
	}
	return "reserved"
}

// IsCoded reports whether a blob of the plan has a header and chunk bodies.
func IsCoded(plan uint8) bool { return plan >= PlanCoded && plan <= PlanNarrow }
