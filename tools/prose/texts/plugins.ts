import { type Part, toTree } from './tree.ts';
import { findStringPassages } from './typescript.ts';
import { findYamlPassages } from './yaml.ts';
import { findJsonPassages } from './json.ts';
import { findPassages } from './plain.ts';
import type { TextlintKernelPlugin } from '@textlint/kernel';
import markdown from '@textlint/textlint-plugin-markdown';

/** The passages of a file's text. */
type FindInText = (text: string) => readonly (readonly Part[])[];

/** Ends of files' names to how their passages are found. Markdown has textlint's own plugin. */
const extensionToFind: Readonly<Record<string, FindInText>> = {
  '.ts': findStringPassages,
  '.yaml': findYamlPassages,
  '.tpl': findYamlPassages,
  '.json': findJsonPassages,
  '.txt': (text) => findPassages(text, 0),
};

/** How textlint reads each kind of file. */
export const plugins: readonly TextlintKernelPlugin[] = [
  { pluginId: 'markdown', plugin: markdown.default },
  ...Object.entries(extensionToFind).map(([extension, find]) => ({
    pluginId: extension,
    plugin: toPlugin(extension, find),
  })),
];

function toPlugin(extension: string, find: FindInText): TextlintKernelPlugin['plugin'] {
  return {
    Processor: class {
      availableExtensions(): string[] {
        return [extension];
      }
      processor() {
        return {
          preProcess: (text: string) => toTree(text, find(text)),
          postProcess: (messages: never[], filePath = '') => ({ messages, filePath }),
        };
      }
    },
  };
}
