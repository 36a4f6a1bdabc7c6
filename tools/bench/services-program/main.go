// What scripts/bench services, takeover and beside need beside the API and the nodes, by the standard library alone:
// `services write` writes objects, `services stream` writes them as they are told, `services follow` sees a change come by the API and
// in the kernel, `services probe` asks addresses as a client on the wire does, `services echo` is the pod behind them, `services repair`
// sees how soon a chain has rules again.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	commands := map[string]func([]string) error{
		"write": runWrite, "stream": runStream, "follow": runFollow, "probe": runProbe, "echo": runEcho, "repair": runRepair,
	}
	if len(words) > 0 {
		if command, is := commands[words[0]]; is {
			return command(words[1:])
		}
	}
	return fmt.Errorf("there is write, stream, follow, probe, echo and repair")
}
