/** Changes the text of a file. Throws where the place for it is not found. */
export type Edit = (text: string) => string;

/** One thing that CONTRIBUTING says how to add, done in the smallest way. */
export interface Addition {
  /** What its paragraph begins with. */
  readonly title: string;
  /** What it is called. A failure for want of one of its files says this. */
  readonly name: string;
  readonly files: Readonly<Record<string, Edit>>;
  /** Those of the files that a test of another layer asks for. */
  readonly heldElsewhere: readonly string[];
}

const insertAfter =
  (place: string, added: string): Edit =>
  (text) => {
    const index = text.indexOf(place);
    if (index === -1) throw new Error(`no place for ${added}: there is no ${place}`);
    const end = index + place.length;
    return `${text.slice(0, end)}${added}${text.slice(end)}`;
  };

const insertRowAfter =
  (cell: string, added: string): Edit =>
  (text) => {
    const [row] = text.split('\n').filter((line) => line.startsWith(`| \`${cell}`));
    if (row === undefined) throw new Error(`no place for ${added}: no row begins with ${cell}`);
    return insertAfter(`${row}\n`, `${added}\n`)(text);
  };

const exampleEntry = `  exampleChoice: choose('log', ['one', 'two'], 'one', {
    meaning: 'an example', example: 'two' }),\n`;

const option: Addition = {
  title: 'an option',
  name: 'exampleChoice',
  files: {
    'config/options.ts': insertAfter("    example: 'json',\n  }),\n", exampleEntry),
    'docs/configuration.md': insertRowAfter(
      '--log-format',
      '| `--example-choice CHOICE` | `VIPNAT_EXAMPLE_CHOICE` | `exampleChoice` | `one` | `one` or `two` | `two` |',
    ),
    'manifests/chart/values.schema.json': insertAfter(
      '"enum": ["pretty", "json"]\n        }',
      ',\n"exampleChoice": { "enum": ["one", "two"] }',
    ),
    'test/support/agent/running-agent.ts': insertAfter("logFormat: 'pretty',\n", "exampleChoice: 'one',\n"),
  },
  heldElsewhere: [],
};

const error: Addition = {
  title: 'an error',
  name: 'EXAMPLE_FAILED',
  files: {
    'lib/errors.ts': insertAfter(
      "the output of the same command with `--log-level debug`.',\n  },\n",
      "EXAMPLE_FAILED: { meaning: 'An example failed.', remedy: 'Try again.' },\n",
    ),
    'docs/errors.md': insertRowAfter(
      'INTERNAL_ERROR',
      '| `EXAMPLE_FAILED` | An example failed. | Try again. | 1 | yes |',
    ),
  },
  heldElsewhere: [],
};

const check: Addition = {
  title: 'a check of doctor',
  name: 'example-found',
  files: {
    'cli/doctor/checks/rules.ts': insertAfter(
      'export const ruleChecks: Checks = {\n',
      "  'example-found': { levels: ['warn'], meaning: 'An example.', find: () => null },\n",
    ),
    'docs/doctor.md': insertRowAfter('ipvs-excludes-vip', '| `example-found` | warn | An example. |'),
    'test/host/netns/doctor-faults.ts': insertAfter(
      "name: 'rules',\n    faults: [\n",
      "{ code: 'example-found', seed: shell('true') },\n",
    ),
  },
  heldElsewhere: ['test/host/netns/doctor-faults.ts'],
};

const dashboardPanel = `{ "type": "stat", "title": "Example", "description": "An example.", "id": 999,
  "datasource": { "type": "prometheus", "uid": "\${datasource}" },
  "fieldConfig": { "defaults": { "unit": "none" }, "overrides": [] },
  "targets": [{ "expr": "vipnat_example{instance=~\\"$instance\\"}" }],
  "gridPos": { "h": 7, "w": 6, "x": 0, "y": 999 } },`;

const metric: Addition = {
  title: 'a metric',
  name: 'vipnat_example',
  files: {
    'lib/telemetry/metrics.ts': insertAfter(
      'export const sampled = {\n',
      "  vipnat_example: { type: 'gauge', labels: [], help: 'An example' },\n",
    ),
    'agent/report/metrics.ts': insertAfter(
      "sample('vipnat_can_serve', {}, isServing),\n",
      "sample('vipnat_example', {}, 1),\n",
    ),
    'docs/metrics.md': (text) =>
      insertAfter(
        /^\| metric.*\n\|.*\n/m.exec(text)?.[0] ?? '| metric',
        '| `vipnat_example` | gauge | | An example. | |\n',
      )(text),
    'manifests/dashboard.json': insertAfter('"panels": [', dashboardPanel),
  },
  heldElsewhere: [],
};

const exampleWatch = `
/** Never changes. */
function watchExample({ clock, onTrigger, onProblem }: SourceOptions): Watch {
  const onChange = () => { onTrigger('trigger-example'); };
  return startPoll({ clock, sample: () => Promise.resolve(''), everyMs: () => 1000, onChange, onProblem });
}\n`;

const trigger: Addition = {
  title: 'a trigger',
  name: 'trigger-example',
  files: {
    'lib/kernel/port.ts': insertAfter('export type Trigger =', " 'trigger-example' |"),
    'lib/kernel/watch.ts': (text) =>
      insertAfter(
        "'xtables-lock': startLockWatch(options),\n",
        "'trigger-example': watchExample(options),\n",
      )(text) + exampleWatch,
    'test/support/fakes/kernel-watches.ts': insertAfter('forwarding: 1000,\n', "'trigger-example': 1000,\n"),
    'test/contract/kernel.test.ts': insertAfter('', '// The case of the new one.\n'),
  },
  heldElsewhere: ['test/contract/kernel.test.ts'],
};

/** Each in the place where the order of a catalogue has it. */
const command: Addition = {
  title: 'a command',
  name: 'example',
  files: {
    'cli/commands/example.ts': () => `import { definePlainCommand, json } from '../command.ts';

/** An example. */
export const example = definePlainCommand({
  help: 'Exit status: 0 printed.',
  flags: { json },
  run: ({ options, stdout }) => {
    stdout(options.json ? '{}' : '');
    return Promise.resolve(0);
  },
});
`,
    'cli/table.ts': (text) =>
      insertAfter(
        "(await import('./commands/help.ts')).printVersion,\n",
        "  example: async () => (await import('./commands/example.ts')).example,\n",
      )(insertAfter("version: 'print the version',\n", "    example: 'an example',\n")(text)),
    'docs/commands.md': insertRowAfter('vipnat version', '| `vipnat example` | prints an example | 0 |'),
  },
  heldElsewhere: [],
};

export const additions: readonly Addition[] = [option, error, check, metric, trigger, command];
