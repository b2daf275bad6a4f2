package managedroute

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// The maximum numbers of instructions that parts of a regular expression add to its program, measured against Envoy's
// numbers for random expressions. The true size is often lower.
const (
	sizeOfAll    = 4 // the beginning and the end
	sizeOfGroup  = 2 // a capture group
	sizeOfRepeat = 3
	sizeOfBranch = 1 // a branch of an alternation
	sizeOfOther  = 2 // any character, or a boundary

	highestByte = 0xff
)

// programSize returns an upper bound for the size of RE2's program for a regular expression in Latin-1, as Envoy
// compiles it. For an expression that Go cannot parse, the result is above MaxProgram.
//
// RE2 and Go both merge branches of an alternation, e.g. a|b to [ab], but Go merges more. An empty branch between each
// two branches prevents all merging.
func programSize(text string) int {
	separated := strings.NewReplacer(`\\`, `\\`, `\|`, `\|`, `|`, `|(?:)|`).Replace(text)
	parsed, err := syntax.Parse(separated, syntax.Perl)
	if err != nil {
		return MaxProgram + 1
	}
	return sizeOfAll + sizeOf(parsed.Simplify())
}

// sizeOf returns an upper bound for one part.
func sizeOf(part *syntax.Regexp) int {
	size := 0
	for _, sub := range part.Sub {
		size += sizeOf(sub)
	}
	switch part.Op {
	case syntax.OpEmptyMatch, syntax.OpConcat:
		return size
	case syntax.OpLiteral:
		return len(string(part.Rune))
	case syntax.OpCharClass:
		return rangesOf(part.Rune)
	case syntax.OpCapture:
		return size + sizeOfGroup
	case syntax.OpQuest:
		return size + sizeOfRepeat
	case syntax.OpStar, syntax.OpPlus:
		if slices.ContainsFunc(part.Sub, hasLoop) {
			size *= 2 // RE2 duplicates the beginning of a nested loop, unless both loops are greedy
		}
		return size + sizeOfRepeat
	case syntax.OpAlternate:
		return size + sizeOfBranch*len(part.Sub)
	default:
		return size + sizeOfOther
	}
}

// hasLoop reports whether part, or a part of it, is an unbounded repetition.
func hasLoop(part *syntax.Regexp) bool {
	return part.Op == syntax.OpStar || part.Op == syntax.OpPlus || slices.ContainsFunc(part.Sub, hasLoop)
}

// rangesOf counts the ranges of a character class that can contain a byte.
func rangesOf(bounds []rune) int {
	count := 0
	for i := 0; i+1 < len(bounds); i += 2 {
		if bounds[i] <= highestByte {
			count++
		}
	}
	return count
}
