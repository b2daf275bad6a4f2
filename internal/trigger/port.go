package trigger

import (
	"fmt"
	"slices"
	"strings"
)

// choosePort sets Port or PortName, exactly one, if it is clear which port is meant. Unless there is exactly one valid
// value, that is a guess: a name in port, a number in portName, or one valid value of two. problems are those of single
// keys. It returns them with those of the port: ignored ones if there is a port.
func (t *Trigger) choosePort(metadata map[string]string, problems []Problem) []Problem {
	port, portName := strings.TrimSpace(metadata[KeyPort]), strings.TrimSpace(metadata[KeyPortName])
	if port == "" && portName == "" {
		return problems
	}
	other := Problem{Key: KeyPortName, Value: portName, Fix: "set exactly one of port and portName"}
	t.Port, t.PortName = 0, ""
	switch {
	case readPort(t, port) == nil:
	case isPortName(portName):
		t.PortName, other.Key, other.Value = portName, KeyPort, port
	case isPortName(port) && strings.Trim(port[:1], digits) != "": // "8080a" is a number with a typo
		t.PortName = port
		if portName == "" {
			other.Key, other.Value, other.Fix = KeyPort, port, "not a number from 1 to 65535: use portName for a name"
		}
	case readPort(t, portName) == nil:
		other.Key, other.Value = KeyPort, port
		if port == "" {
			other.Key, other.Value, other.Fix = KeyPortName, portName, "not a name: use port for a number"
		}
	default:
		return problems
	}
	problems = slices.DeleteFunc(problems, func(problem Problem) bool {
		return problem.Key == KeyPort || problem.Key == KeyPortName
	})
	if t.IsPortGuess = other.Value != ""; !t.IsPortGuess {
		return problems
	}
	guess := fmt.Sprintf("%s %d", KeyPort, t.Port)
	if t.PortName != "" {
		guess = KeyPortName + " " + t.PortName
	}
	return append(problems, other.Guessed(guess))
}

// digits and letters are those of the name of a port.
const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyz"

// isPortName reports whether text can be the name of a port. One without a letter is a number, see IANA_SVC_NAME in
// RFC 6335.
func isPortName(text string) bool {
	return isDNSLabel(text) && strings.ContainsAny(text, letters)
}
