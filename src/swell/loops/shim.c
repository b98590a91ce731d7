/* Python's side of the loops: takes arguments apart, checks their types, and calls machine code.
 *
 * A loop's machine code takes one buffer of numbers of 8 bytes, in the order of its `arguments`:
 *   I, F, B    an integer, a float, a truth value
 *   i2, f1, b1 an array of so many dimensions, in C order: its address, then its shape
 *   ( )        a tuple of these
 * and leaves what it returns at the beginning of the buffer, as `returns` says. Arguments of other types are left to
 * the same loop in plain Python.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *data;
    int32_t size;
} Raised; /* the first columns of what numba leaves: a pickled (class, arguments, place) */

typedef int32_t (*Code)(void **returned, Raised **raised, void *numbers);

typedef struct {
    const char *name;
    const char *arguments;
    const char *returns;
    Code code;
} Loop;

extern void NRT_MemSys_init(void);

#include "loops.h" /* LOOPS, NUM_LOOPS, MOST_NUMBERS: written by swell.loops.library */

typedef union {
    int64_t integer;
    double real;
} Number;

/* Where a walk over arguments is. */
typedef struct {
    const char *code;
    Number *next;
} Walk;

static int take(Walk *walk, PyObject *argument);

static int take_array(Walk *walk, char code, PyObject *argument)
{
    int type = code == 'f' ? NPY_DOUBLE : code == 'i' ? NPY_INT64 : NPY_BOOL;
    int num_axes = *walk->code++ - '0';
    if (!PyArray_Check(argument))
        return 0;
    PyArrayObject *array = (PyArrayObject *)argument;
    if (PyArray_NDIM(array) != num_axes || PyArray_TYPE(array) != type ||
        !PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED) || PyArray_ISBYTESWAPPED(array))
        return 0;
    (walk->next++)->integer = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int axis = 0; axis < num_axes; axis++)
        (walk->next++)->integer = PyArray_DIM(array, axis);
    return 1;
}

static int take_tuple(Walk *walk, PyObject *argument)
{
    if (!PyTuple_Check(argument))
        return 0;
    Py_ssize_t num = PyTuple_Size(argument);
    for (Py_ssize_t item = 0; item < num; item++)
        if (*walk->code == ')' || !take(walk, PyTuple_GetItem(argument, item)))
            return 0;
    return *walk->code++ == ')';
}

/* 1: it has the type; 0: it has not, and no error is set. */
static int take(Walk *walk, PyObject *argument)
{
    char code = *walk->code++;
    Number number;
    switch (code) {
    case '(':
        return take_tuple(walk, argument);
    case 'I':
        if (!PyIndex_Check(argument))
            return 0;
        number.integer = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
        break;
    case 'F':
        if (!PyFloat_Check(argument) && !PyIndex_Check(argument))
            return 0;
        number.real = PyFloat_AsDouble(argument);
        break;
    case 'B':
        if (!PyBool_Check(argument) && !PyArray_IsScalar(argument, Bool))
            return 0;
        number.integer = PyObject_IsTrue(argument);
        break;
    default:
        return take_array(walk, code, argument);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    *walk->next++ = number;
    return 1;
}

static PyObject *number_of(char code, Number number)
{
    return code == 'F' ? PyFloat_FromDouble(number.real)
         : code == 'B' ? PyBool_FromLong(number.integer != 0)
                       : PyLong_FromLongLong(number.integer);
}

static PyObject *returned(const char *codes, const Number *numbers)
{
    size_t num = strlen(codes);
    if (num == 0)
        Py_RETURN_NONE;
    if (num == 1)
        return number_of(codes[0], numbers[0]);
    PyObject *tuple = PyTuple_New(num);
    for (size_t item = 0; tuple != NULL && item < num; item++) {
        PyObject *one = number_of(codes[item], numbers[item]);
        if (one == NULL || PyTuple_SetItem(tuple, item, one) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* The exception that plain Python would have raised. */
static PyObject *raise(const Loop *loop, const Raised *raised)
{
    PyObject *pickle = PyImport_ImportModule("pickle");
    PyObject *told = pickle == NULL ? NULL
                   : PyObject_CallMethod(pickle, "loads", "y#", raised->data, (Py_ssize_t)raised->size);
    if (told != NULL && PyTuple_Check(told) && PyTuple_Size(told) > 1)
        PyErr_SetObject(PyTuple_GetItem(told, 0), PyTuple_GetItem(told, 1));
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "the loop %s failed", loop->name);
    Py_XDECREF(told);
    Py_XDECREF(pickle);
    return NULL;
}

static PyObject *in_plain_python(PyObject *plain, PyObject *const *arguments, Py_ssize_t num)
{
    PyObject *tuple = PyTuple_New(num);
    if (tuple == NULL)
        return NULL;
    for (Py_ssize_t item = 0; item < num; item++) {
        Py_INCREF(arguments[item]);
        PyTuple_SetItem(tuple, item, arguments[item]);
    }
    PyObject *result = PyObject_CallObject(plain, tuple);
    Py_DECREF(tuple);
    return result;
}

/* `self` is (number of the loop, the same in plain Python). */
static PyObject *call(PyObject *self, PyObject *const *arguments, Py_ssize_t num)
{
    const Loop *loop = &LOOPS[PyLong_AsLong(PyTuple_GetItem(self, 0))];
    Number numbers[MOST_NUMBERS];
    Walk walk = {loop->arguments, numbers};
    void *nothing = NULL;
    Raised *raised = NULL;
    for (Py_ssize_t item = 0; item < num; item++)
        if (*walk.code == 0 || !take(&walk, arguments[item]))
            return in_plain_python(PyTuple_GetItem(self, 1), arguments, num);
    if (*walk.code != 0)
        return in_plain_python(PyTuple_GetItem(self, 1), arguments, num);
    int32_t status = loop->code(&nothing, &raised, numbers);
    if (status > 0 && raised != NULL)
        return raise(loop, raised);
    if (status != 0 && status != -2) /* -2: it returns None */
        return PyErr_Format(PyExc_RuntimeError, "the loop %s failed", loop->name);
    return returned(loop->returns, numbers);
}

static PyMethodDef CALL = {"loop", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};

static PyObject *find(PyObject *module, PyObject *arguments)
{
    const char *name;
    PyObject *plain;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &plain))
        return NULL;
    for (long number = 0; number < NUM_LOOPS; number++)
        if (strcmp(LOOPS[number].name, name) == 0) {
            PyObject *self = Py_BuildValue("(lO)", number, plain);
            PyObject *loop = self == NULL ? NULL : PyCFunction_NewEx(&CALL, self, NULL);
            Py_XDECREF(self);
            return loop;
        }
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"find", find, METH_VARARGS, "The machine code of this name; a call with other types goes to plain Python."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_loops", NULL, -1, METHODS};

PyMODINIT_FUNC PyInit__loops(void)
{
    import_array();
    NRT_MemSys_init();
    return PyModule_Create(&MODULE);
}
