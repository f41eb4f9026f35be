package algo

import "math/bits"

// muldiv returns the quotient and the remainder of a*b/d without losing the
// high half of the product. All three are positive (a and b may be 0) and the
// quotient must fit an int64.
func muldiv(a, b, d int64) (q, r int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	quo, rem := bits.Div64(hi, lo, uint64(d))
	return int64(quo), int64(rem)
}
