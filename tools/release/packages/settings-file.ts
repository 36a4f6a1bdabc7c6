import { groupToHeading, optionNames, describeOption, listChoices } from '../../../config/options.ts';
import { wrap } from '../../../lib/text.ts';
import { explainConfigOption } from '../../../cli/command.ts';

/** The configuration of the packages' service. */
export const settingsFile = '/etc/vipnat/vipnat.yaml';

/** Where the .deb has the file as this version has it. */
export const settingsTemplate = '/usr/share/vipnat/vipnat.yaml';

/** Its text: every option in a comment, with what it is for and a value that works. The agent needs `vip`. */
export function renderSettingsFile(): string {
  const groups = Object.entries(groupToHeading).map(([group, title]) => {
    const names = optionNames.filter((name) => describeOption(name).group === group);
    return `\n# ${title.replace(/:$/, '')}\n${names.map(renderOption).join('')}`;
  });
  return head + groups.join('');
}

const head = `# The configuration of the service vipnat. It starts when it has a virtual IP:
#   vipnat run --dry-run --config ${settingsFile}     what it would write
#   systemctl enable --now vipnat                                  after the first change
#   systemctl restart vipnat                                       after others; the rules stay meanwhile
# A folder that is not below /run or /var/lib has to be made, and named by ReadWritePaths= in systemctl edit vipnat.
`;

function renderOption(name: (typeof optionNames)[number]): string {
  const { example, isList } = describeOption(name);
  const meaning = wrap(explainConfigOption(name).meaning, 100);
  const list = `[${example.split(',').map(quote).join(', ')}]`;
  const isWord = listChoices(name).length > 0;
  return `${meaning.map((line) => `# ${line}\n`).join('')}#${name}: ${isList ? list : isWord ? example : quote(example)}\n`;
}

/** An IPv6 address without quotes would be something else in YAML. */
function quote(value: string): string {
  return `'${value}'`;
}
