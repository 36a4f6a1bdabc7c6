package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Linux counts both in hundredths of a second on every architecture that it is measured on.
const ticksPerSecond = 100

// What all processors of the machine did, in seconds of one processor.
type usage struct {
	Busy float64 `json:"busy"`
	Idle float64 `json:"idle"`
}

// What a process took in the window, and its memory at the end of it, with all connections open.
type burden struct {
	Seconds   float64 `json:"seconds"`
	Megabytes float64 `json:"megabytes"`
}

type watch struct {
	machine usage
	pids    map[string]string
	seconds map[string]float64
}

func startWatch(watched string) (*watch, error) {
	machine, err := readMachine()
	if err != nil {
		return nil, err
	}
	begun := &watch{machine, map[string]string{}, map[string]float64{}}
	for _, pair := range strings.Split(watched, ",") {
		name, pid, isPair := strings.Cut(pair, "=")
		if !isPair {
			continue
		}
		seconds, err := readProcess(pid)
		if err != nil {
			return nil, err
		}
		begun.pids[name], begun.seconds[name] = pid, seconds
	}
	return begun, nil
}

func (begun *watch) finish() (usage, map[string]burden, error) {
	machine, err := readMachine()
	if err != nil {
		return usage{}, nil, err
	}
	burdens := map[string]burden{}
	for name, pid := range begun.pids {
		seconds, err := readProcess(pid)
		if err != nil {
			return usage{}, nil, err
		}
		megabytes, err := readMemory(pid)
		if err != nil {
			return usage{}, nil, err
		}
		burdens[name] = burden{seconds - begun.seconds[name], megabytes}
	}
	return usage{machine.Busy - begun.machine.Busy, machine.Idle - begun.machine.Idle}, burdens, nil
}

// User, nice, system, idle, waiting for disks, interrupts, software interrupts. What another machine took away is neither.
func readMachine() (usage, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var total usage
	for index, field := range strings.Fields(line)[1:8] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return usage{}, err
		}
		if index == 3 || index == 4 {
			total.Idle += ticks / ticksPerSecond
		} else {
			total.Busy += ticks / ticksPerSecond
		}
	}
	return total, nil
}

func readProcess(pid string) (float64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks float64
	for _, field := range fields[11:13] {
		count, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		ticks += count
	}
	return ticks / ticksPerSecond, nil
}

func readMemory(pid string) (float64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %s has no VmRSS", pid)
	}
	kilobytes, err := strconv.ParseFloat(fields[0], 64)
	return kilobytes / 1024, err
}
