package search

import "strings"

// A name is a path of components, separated by dots and slashes (FORMAT.md section 31).

// components splits a name.
func components(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '/' })
}

// alike counts the bytes that two names have in common at the beginning and, in what is left, at the end.
func alike(a, b string) int {
	n := min(len(a), len(b))
	lead := 0
	for lead < n && a[lead] == b[lead] {
		lead++
	}
	trail := 0
	for trail < n-lead && a[len(a)-1-trail] == b[len(b)-1-trail] {
		trail++
	}
	return lead + trail
}

// maxChoice bounds how many tensors are considered where many have the same relation to one by name.
const maxChoice = 64

// index finds tensors by parts of their names.
type index map[string][]int

// add notes tensor i under a key.
func (x index) add(key string, i int) {
	if list := x[key]; len(list) < maxChoice {
		x[key] = append(list, i)
	}
}

const hole = "\x00"

// addHoles notes a tensor under its name with each of its components left out.
func (x index) addHoles(name string, i int) {
	parts := components(name)
	for k, part := range parts {
		parts[k] = hole
		x.add(strings.Join(parts, "."), i)
		parts[k] = part
	}
}

// siblings calls f for the tensors whose names have as many components as this and differ in one.
func (x index) siblings(name string, f func(int)) {
	parts := components(name)
	for k, part := range parts {
		parts[k] = hole
		for _, i := range x[strings.Join(parts, ".")] {
			f(i)
		}
		parts[k] = part
	}
}

// addEnds notes a tensor under every end of its name.
func (x index) addEnds(name string, i int) {
	parts := components(name)
	for k := range parts {
		x.add(strings.Join(parts[k:], "."), i)
	}
}

// ends calls f for the tensors that share the longest end of the name with a tensor for which f is true; f is false for
// those that do not count.
func (x index) ends(name string, f func(int) bool) {
	parts := components(name)
	for k := range parts {
		found := false
		for _, i := range x[strings.Join(parts[k:], ".")] {
			if f(i) {
				found = true
			}
		}
		if found {
			return
		}
	}
}

// sameEnd counts the last components that two names have in common.
func sameEnd(a, b string) int {
	x, y := components(a), components(b)
	n := 0
	for n < min(len(x), len(y)) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}
