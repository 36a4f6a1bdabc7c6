import * as z from 'zod/mini';
import { readIfThere } from '../../lib/files/optional-file.ts';
import { VipnatError } from '../../lib/text/errors.ts';

/** Far more than any description has. */
const maxBytes = 1_048_576;

/**
 * Reads a file that may be there or not.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readText(path: string, flag: string): Promise<string | null> {
  try {
    return await readIfThere(path, { maxBytes });
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw invalid(`${flag} ${path} cannot be read: ${code === '' ? message : code}`);
  }
}

/**
 * Reads the documents of a YAML file.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readYaml(path: string, flag: string): Promise<readonly unknown[]> {
  const text = await readText(path, flag);
  if (text === null) throw invalid(`${flag} ${path} cannot be read: there is no such file`);
  const { parseAllDocuments } = await import('yaml');
  const documents = [...parseAllDocuments(text, { prettyErrors: false })];
  const [fault] = documents.flatMap(({ errors }) => errors);
  if (fault !== undefined) throw invalid(`${path} is not YAML: ${fault.message.replaceAll(/\s+/g, ' ')}`);
  return documents.map((document) => document.toJS() as unknown);
}

/**
 * What a schema says of a value. Each message of the schema says what a value is not, and gives an example.
 * @throws VipnatError DEVICE_SETTINGS_INVALID with a line for each problem
 */
export function checkShape<Value>(schema: z.ZodMiniType<Value>, value: unknown, path: string): Value {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  throw invalid(
    result.error.issues
      .map((issue) => `${path}: ${issue.path.map(String).join('.') || 'it'} ${issue.message}`)
      .join('; '),
  );
}

/** An error that says what is wrong with a file. */
export function invalid(message: string): VipnatError {
  return new VipnatError('DEVICE_SETTINGS_INVALID', message);
}
