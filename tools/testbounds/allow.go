package main

import (
	"bytes"
	"go/ast"
	"go/token"
	"io/fs"
	"strings"
)

// permit is a comment that permits a finding.
type permit struct {
	at     token.Position
	reason string
	isUsed bool
}

// permitted returns the findings that no comment permits, and those about such comments.
func (j *judgement) permitted() (left []finding) {
	permits := map[string]map[int]*permit{} // by file and line
	for _, file := range j.files {
		permits[j.fset.Position(file.Package).Filename] = j.permits(file)
	}
	for found := range j.findings {
		if allowed := permits[found.at.Filename][found.at.Line]; allowed != nil {
			allowed.isUsed = true
		} else {
			left = append(left, found)
		}
	}
	for _, lines := range permits {
		for _, each := range lines {
			switch {
			case each.reason == "":
				left = append(left, finding{each.at, comment, "testbounds:allow needs a reason"})
			case !each.isUsed:
				left = append(left, finding{each.at, comment, "testbounds:allow permits nothing here: remove it"})
			}
		}
	}
	return left
}

// permits returns the permits of a file by the lines that they are about: the line of a comment, or the next one if the
// comment is alone on its line.
func (j *judgement) permits(file *ast.File) map[int]*permit {
	found := map[int]*permit{}
	for _, group := range file.Comments {
		for _, each := range group.List {
			text, ok := strings.CutPrefix(each.Text, "//testbounds:allow")
			if !ok {
				continue
			}
			at := j.fset.Position(each.Pos())
			about := at.Line
			if j.isAlone(at) {
				about++
			}
			found[about] = &permit{at: at, reason: strings.TrimSpace(text)}
		}
	}
	return found
}

// isAlone returns whether nothing is in front of a position on its line.
func (j *judgement) isAlone(at token.Position) bool {
	text, err := fs.ReadFile(j, at.Filename)
	return err == nil && at.Column-1 <= at.Offset && len(bytes.TrimSpace(text[at.Offset-at.Column+1:at.Offset])) == 0
}
