import type { TLocalizedValidationError } from 'typebox/error';

/** Errors of a whole value, each property or choice of which has its own error as well. */
const SUMMARIES: ReadonlySet<string> = new Set(['anyOf', 'additionalProperties', 'propertyNames']);

/** Maximum length of a name in a description, characters: a sender may have chosen it. */
const MAX_NAME_CHARACTERS = 80;

const shorten = (name: string): string =>
  name.length > MAX_NAME_CHARACTERS ? `${name.slice(0, MAX_NAME_CHARACTERS)}…` : name;

/** Describes in words why a schema refuses a value: `kind must be "audio"; id must be integer`. */
export function describeFaults(errors: TLocalizedValidationError[]): string {
  const faults = new Map<string, Set<string>>();
  const choices = new Set<string>();
  for (const error of errors) {
    const name = shorten(error.instancePath.slice(1).replaceAll('/', '.'));
    if (error.keyword === 'anyOf') choices.add(name);
    if (SUMMARIES.has(error.keyword)) continue;
    faults.set(name, (faults.get(name) ?? new Set()).add(describeFault(error)));
  }
  const sentences = [...faults].map(([name, ofName]) =>
    `${name} ${[...ofName].join(choices.has(name) ? ' or ' : ', ')}`.trim(),
  );
  return sentences.join('; ');
}

/** Describes one error, without the name of the property. */
export function describeFault(error: TLocalizedValidationError): string {
  switch (error.keyword) {
    case 'const':
      return `must be ${JSON.stringify(error.params.allowedValue)}`;
    case 'enum':
      return `must be one of ${error.params.allowedValues.join(', ')}`;
    case 'pattern':
      return 'is malformed';
    case 'boolean':
      return 'is not known here';
    default:
      return error.message;
  }
}
