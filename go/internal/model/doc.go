// Package model turns token histograms into the frequency tables of FORMAT.md: fixed-point logarithms (section 20), cost
// estimates (section 21), clustering and quantised weights or the parametric family (sections 10 and 22), and the wire
// form of own tables (section 10).
//
// Everything is integer arithmetic with total orders, so the same counts give the same bytes on every machine.
package model
